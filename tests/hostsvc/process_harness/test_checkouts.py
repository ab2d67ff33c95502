"""Checked-out commits: made once, fetched as seldom as can be, bounded, and whole whatever happens."""

import asyncio
import os
import shutil
import stat
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from hostsvc.process_harness import cache as harness_cache
from hostsvc.process_harness import directory_trees
from hostsvc.process_harness.cache import HarnessRefused, open_cache
from hostsvc.process_harness.checkouts import Checkout, Checkouts, open_checkouts
from hostsvc.process_harness.git import GitFailed, Mirror, NoSuchRef
from supervisors.clock import SystemClock
from tests.git_repository import GitRepository


class CountingMirror(Mirror):
    """Real git, counted; a fetch can be held up."""

    fetches = 0
    writes = 0
    gate: asyncio.Event | None = None

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.begun = asyncio.Event()

    async def fetch(self) -> None:
        self.fetches += 1
        self.begun.set()
        if self.gate is not None:
            await self.gate.wait()
        await super().fetch()

    async def write(self, commit: str, directory: Path, index: Path) -> None:
        self.writes += 1
        await super().write(commit, directory, index)


class Cache:
    """One service's checkouts of one repository."""

    def __init__(self, repository: Path, directory: Path) -> None:
        self.repository = repository
        self.directory = directory
        self.mirror: CountingMirror

    @asynccontextmanager
    async def open(self, most: int = 20) -> AsyncIterator[Checkouts]:
        async with open_cache(self.directory, str(self.repository), SystemClock()) as cache:
            self.mirror = CountingMirror(str(self.repository), cache.mirror, cache.root, 30, os.environ)
            async with open_checkouts(cache, self.mirror, most) as checkouts:
                yield checkouts

    def kept(self) -> set[str]:
        """The commits that are checked out."""
        return {path.name for path in self.directory.glob("repositories/*/checkouts/*")}


@pytest.fixture
def repository(tmp_path: Path) -> GitRepository:
    return GitRepository.make(tmp_path / "agents")


@pytest.fixture
def cache(repository: GitRepository, tmp_path: Path) -> Cache:
    return Cache(repository.path, tmp_path / "cache")


async def taken(checkouts: Checkouts, ref: str) -> Checkout:
    """A checkout that was used for a moment."""
    with checkouts.lease() as lease:
        return await lease.take(ref)


async def test_a_commit_is_checked_out_once_and_cannot_be_written(
    repository: GitRepository, cache: Cache
) -> None:
    commit = repository.commit(run="print()")
    async with cache.open() as checkouts:
        several = await asyncio.gather(*(taken(checkouts, "main") for _ in range(5)))
        assert set(several) == {Checkout(commit, several[0].directory)}
        assert cache.mirror.writes == 1
    directory = several[0].directory
    assert (directory / "run.py").read_text() == "print()"
    assert [path.stat().st_mode & 0o777 for path in (directory, directory / "run.py")] == [0o555, 0o444]


@pytest.mark.parametrize("umask", [0o022, 0o077])
async def test_a_run_gets_to_its_files_whatever_the_umask(
    umask: int, repository: GitRepository, cache: Cache
) -> None:
    repository.commit(run="1")
    usual = os.umask(umask)
    try:
        async with cache.open() as checkouts:
            directory = (await taken(checkouts, "main")).directory
            home = checkouts._cache.make_home(UUID(int=1), None)
    finally:
        os.umask(usual)
    on_the_way = {
        place for place in (*directory.parents, *home.parents) if place.is_relative_to(cache.directory)
    }
    assert {f"{stat.S_IMODE(place.stat().st_mode):o}" for place in on_the_way} == {"711"}
    assert f"{stat.S_IMODE((directory / 'run.py').stat().st_mode):o}" == "444"


async def test_a_commit_named_in_full_that_is_here_is_not_fetched_for(
    repository: GitRepository, cache: Cache
) -> None:
    commit = repository.commit(run="1")
    async with cache.open() as checkouts:
        for ref, fetches in ((commit, 1), (commit, 1), ("main", 2)):
            assert (await taken(checkouts, ref)).commit == commit
            assert cache.mirror.fetches == fetches


async def test_a_branch_is_the_newest_there_is_when_it_is_asked_for(
    repository: GitRepository, cache: Cache
) -> None:
    first = repository.commit(run="1")
    async with cache.open() as checkouts:
        cache.mirror.gate = asyncio.Event()
        early = [asyncio.create_task(taken(checkouts, "main")) for _ in range(3)]
        await cache.mirror.begun.wait()
        late = [asyncio.create_task(taken(checkouts, "main")) for _ in range(3)]
        await asyncio.sleep(0)  # so that they have asked
        cache.mirror.gate.set()
        assert {(await each).commit for each in early} == {first}
        second = repository.commit(run="2")
        assert {(await each).commit for each in late} <= {first, second}
        assert cache.mirror.fetches == 2
        assert (await taken(checkouts, "main")).commit == second


async def test_a_repository_that_is_gone_is_known_as_it_was(repository: GitRepository, cache: Cache) -> None:
    commit = repository.commit(run="1")
    async with cache.open() as checkouts:
        await taken(checkouts, "main")
        shutil.move(repository.path, f"{repository.path}-moved")
        again = await taken(checkouts, "main")
        assert again.commit == commit
        assert again.outdated
        with pytest.raises(GitFailed, match=r'tag or commit "v2", as far as is known: it cannot be fetched'):
            await taken(checkouts, "v2")
    async with cache.open() as checkouts:
        assert not (await taken(checkouts, commit)).outdated


async def test_those_used_last_stay_and_those_in_use_in_any_case(
    repository: GitRepository, cache: Cache
) -> None:
    a, b, c, d = (repository.commit(run=name) for name in "abcd")
    async with cache.open(most=2) as checkouts:
        with checkouts.lease() as lease:
            await lease.take(a)
            for commit in (b, c):
                await taken(checkouts, commit)
            assert cache.kept() == {a, c}
        await taken(checkouts, d)
        assert cache.kept() == {a, d}
        await taken(checkouts, a)
        await taken(checkouts, b)
        assert cache.kept() == {a, b}
    async with cache.open(most=1) as checkouts:
        await taken(checkouts, c)
        assert cache.kept() == {c}
    async with cache.open():
        assert list(cache.directory.glob("unfinished/*")) == []


async def test_a_taking_that_was_cut_short_holds_nothing(repository: GitRepository, cache: Cache) -> None:
    commit, other = repository.commit(run="1"), repository.commit(run="2")
    async with cache.open(most=1) as checkouts:
        with checkouts.lease() as lease:
            task = asyncio.create_task(lease.take(commit))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await taken(checkouts, commit)
        await taken(checkouts, other)
        assert cache.kept() == {other}


async def test_a_checkout_that_somebody_removed_is_made_again(
    repository: GitRepository, cache: Cache
) -> None:
    commit = repository.commit(run="1")
    async with cache.open() as checkouts:
        directory = (await taken(checkouts, commit)).directory
        directory_trees.remove(directory)
        assert (await taken(checkouts, commit)).directory == directory
        assert (directory / "run.py").exists()


async def test_a_start_clears_what_a_killed_service_left(repository: GitRepository, cache: Cache) -> None:
    commit = repository.commit(run="1")
    async with cache.open() as checkouts:
        await taken(checkouts, commit)
        left = checkouts._cache.begin()
        (left / "half").touch()
        home = checkouts._cache.make_home(UUID(int=1), None)
    another = cache.directory / "repositories/of-another-time/checkouts"
    another.mkdir(parents=True)
    async with cache.open():
        assert [path for path in (left, home, another) if path.exists()] == []
        assert cache.kept() == {commit}


async def test_one_service_at_a_time_uses_a_cache(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness_cache, "ATTEMPTS", 2)
    async with cache.open():
        with pytest.raises(HarnessRefused, match=r"another service uses .*/cache: end it, or set another"):
            async with cache.open():
                pass
    monkeypatch.undo()
    async with AsyncExitStack() as former:
        await former.enter_async_context(cache.open())
        latter = asyncio.create_task(_opened(cache))
        await asyncio.sleep(0)
    await latter


async def test_an_unknown_name_is_looked_for_in_the_repository_first(
    repository: GitRepository, cache: Cache
) -> None:
    repository.commit(run="1")
    async with cache.open() as checkouts:
        with pytest.raises(NoSuchRef):
            await taken(checkouts, "soon")
        repository.branch("soon")
        await taken(checkouts, "soon")


async def _opened(cache: Cache) -> None:
    async with cache.open():
        pass
