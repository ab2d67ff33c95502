"""Removal in the background: complete, in turns between organizations, and bounded for each of them."""

import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from hostsvc.process_harness import removal
from hostsvc.process_harness.removal import FILES_PER_TURN, MAX_PENDING, Removals, open_removals

GREEDY, OTHER = UUID(int=1), UUID(int=2)
PATIENCE_SECONDS = 20.0


def make_tree(path: Path, files: int) -> Path:
    path.mkdir()
    for number in range(files):
        (path / str(number)).touch()
    return path


async def removed(removals: Removals) -> None:
    """Wait until nothing is pending."""
    async with asyncio.timeout(PATIENCE_SECONDS), removals._has_removed:
        await removals._has_removed.wait_for(lambda: not removals._pending)


async def test_trees_are_removed_in_turns_between_organizations(tmp_path: Path) -> None:
    large = [make_tree(tmp_path / f"large{number}", 4 * FILES_PER_TURN) for number in range(2)]
    small = make_tree(tmp_path / "small", 3)
    async with open_removals() as removals:
        for tree in large:
            removals.add(tree, GREEDY)
        removals.add(small, OTHER)
        async with asyncio.timeout(PATIENCE_SECONDS), removals._has_removed:
            await removals._has_removed.wait()
        assert not small.exists(), "it was the first to be removed"
        assert len(os.listdir(large[0])) >= 2 * FILES_PER_TURN
        await removed(removals)
    assert os.listdir(tmp_path) == []


async def test_owner_of_many_trees_waits_for_room(tmp_path: Path) -> None:
    async with open_removals() as removals:
        for number in range(MAX_PENDING + 2):
            removals.add(make_tree(tmp_path / str(number), 2), GREEDY)
        await removals.wait_for_room(OTHER)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await removals.wait_for_room(GREEDY)
        assert len(os.listdir(tmp_path)) <= MAX_PENDING + 1
        await removed(removals)


async def test_removal_leaves_the_pool_of_threads_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def slow_steps(_: Path) -> Iterator[None]:
        begun.set()
        may_end.wait(PATIENCE_SECONDS)
        yield

    monkeypatch.setattr(removal, "removal_steps", slow_steps)
    async with open_removals() as removals:
        for _ in range(64):
            removals.add(tmp_path, GREEDY)
        assert await asyncio.to_thread(begun.wait, PATIENCE_SECONDS)
        async with asyncio.timeout(PATIENCE_SECONDS):
            names = await asyncio.gather(*(asyncio.to_thread(thread_name) for _ in range(32)))
        assert not any(name.startswith("removal") for name in names)
        may_end.set()


def thread_name() -> str:
    return threading.current_thread().name


async def test_tree_that_cannot_be_removed_delays_nobody(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree", 1)
    async with open_removals() as removals:
        removals.add(Path("/proc/self/status"), GREEDY)
        removals.add(tree, GREEDY)
        await removed(removals)
    assert not tree.exists()
