"""Checkouts: made once, fetched as seldom as possible, limited in number, and always complete."""

import asyncio
import os
import shutil
import stat
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hostsvc.process_harness import cache as harness_cache
from hostsvc.process_harness.cache import HarnessCache, HarnessRefused, make_folder, open_cache
from hostsvc.process_harness.checkouts import Checkout, Checkouts, open_checkouts
from hostsvc.process_harness.git import GitFailed, Mirror, NoSuchRef
from hostsvc.process_harness.programs import remove
from supervisors.clock import SystemClock
from tests.git_repository import GitRepository

TICK_SECONDS = 0.02  # the times of files are equal within some milliseconds


class CountingMirror(Mirror):
    """A mirror with real git that counts its operations; the gates delay them."""

    fetches = 0
    writes = 0
    gate: asyncio.Event | None = None
    write_gate: asyncio.Event | None = None

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.fetch_started = asyncio.Event()

    async def fetch(self) -> None:
        self.fetches += 1
        self.fetch_started.set()
        if self.gate is not None:
            await self.gate.wait()
        await super().fetch()

    async def write(self, commit: str, directory: Path, index: Path) -> None:
        self.writes += 1
        if self.write_gate is not None:
            await self.write_gate.wait()
        await super().write(commit, directory, index)


class Cache:
    """One service's checkouts of one repository."""

    def __init__(self, repository: Path, directory: Path) -> None:
        self.repository = repository
        self.directory = directory
        self.mirror: CountingMirror
        self.paths: HarnessCache

    @asynccontextmanager
    async def open(self, max_checkouts: int = 20) -> AsyncIterator[Checkouts]:
        async with open_cache(self.directory, str(self.repository), SystemClock()) as cache:
            self.paths = cache
            self.mirror = CountingMirror(str(self.repository), cache.mirror, cache.root, 30, os.environ)
            async with (
                open_checkouts(cache, self.mirror, max_checkouts) as checkouts,
            ):
                yield checkouts

    def commits(self) -> set[str]:
        """Return the commits that are checked out."""
        return {path.name for path in self.directory.glob("repositories/*/checkouts/*")}


async def until_gone(*paths: Path) -> None:
    """Return when the paths have been removed, which happens in the background."""
    while any(path.exists() for path in paths):  # noqa: ASYNC110 -- nothing tells when
        await asyncio.sleep(0.01)


@pytest.fixture
def repository(tmp_path: Path) -> GitRepository:
    return GitRepository.make(tmp_path / "agents")


@pytest.fixture
def cache(repository: GitRepository, tmp_path: Path) -> Cache:
    return Cache(repository.path, tmp_path / "cache")


async def check_out(checkouts: Checkouts, ref: str) -> Checkout:
    """Use a checkout for a moment."""
    async with checkouts.check_out(ref) as checkout:
        return checkout


async def test_commit_is_checked_out_once_and_read_only(repository: GitRepository, cache: Cache) -> None:
    commit = repository.commit(run="print()")
    async with cache.open() as checkouts:
        several = await asyncio.gather(*(check_out(checkouts, "main") for _ in range(5)))
        assert set(several) == {Checkout(commit, several[0].directory)}
        assert cache.mirror.writes == 1
    directory = several[0].directory
    assert (directory / "run.py").read_text() == "print()"
    assert [path.stat().st_mode & 0o777 for path in (directory, directory / "run.py")] == [0o555, 0o444]


@pytest.mark.parametrize("umask", [0o022, 0o077])
async def test_run_can_reach_its_files_with_any_umask(
    umask: int, repository: GitRepository, cache: Cache
) -> None:
    repository.commit(run="1")
    previous = os.umask(umask)
    try:
        async with cache.open() as checkouts:
            directory = (await check_out(checkouts, "main")).directory
            home = make_folder(cache.paths.homes / "1", None)
    finally:
        os.umask(previous)
    parents = {path for path in (*directory.parents, *home.parents) if path.is_relative_to(cache.directory)}
    assert {f"{stat.S_IMODE(path.stat().st_mode):o}" for path in parents} == {"711"}
    assert f"{stat.S_IMODE((directory / 'run.py').stat().st_mode):o}" == "444"


async def test_full_hash_of_a_known_commit_needs_no_fetch(repository: GitRepository, cache: Cache) -> None:
    commit = repository.commit(run="1")
    async with cache.open() as checkouts:
        for ref, fetches in ((commit, 1), (commit, 1), ("main", 2)):
            assert (await check_out(checkouts, ref)).commit == commit
            assert cache.mirror.fetches == fetches


async def test_branch_is_fetched_after_it_is_asked_for(repository: GitRepository, cache: Cache) -> None:
    first = repository.commit(run="1")
    async with cache.open() as checkouts:
        cache.mirror.gate = asyncio.Event()
        early = [asyncio.create_task(check_out(checkouts, "main")) for _ in range(3)]
        await cache.mirror.fetch_started.wait()
        late = [asyncio.create_task(check_out(checkouts, "main")) for _ in range(3)]
        await asyncio.sleep(0)  # lets them ask for the next fetch
        cache.mirror.gate.set()
        assert {(await each).commit for each in early} == {first}
        second = repository.commit(run="2")
        assert {(await each).commit for each in late} <= {first, second}
        assert cache.mirror.fetches == 2
        assert (await check_out(checkouts, "main")).commit == second


async def test_unreachable_repository_is_used_in_its_last_known_state(
    repository: GitRepository, cache: Cache
) -> None:
    commit = repository.commit(run="1")
    async with cache.open() as checkouts:
        await check_out(checkouts, "main")
        shutil.move(repository.path, f"{repository.path}-moved")
        again = await check_out(checkouts, "main")
        assert again.commit == commit
        assert again.outdated
        with pytest.raises(GitFailed, match=r'tag or commit "v2" in its last known state; it cannot be'):
            await check_out(checkouts, "v2")
    async with cache.open() as checkouts:
        assert not (await check_out(checkouts, commit)).outdated


async def test_least_recently_used_checkouts_go_unless_in_use(
    repository: GitRepository, cache: Cache
) -> None:
    a, b, c, d = (repository.commit(run=name) for name in "abcd")
    async with cache.open(max_checkouts=2) as checkouts:
        async with checkouts.check_out(a):
            for commit in (b, c):
                await check_out(checkouts, commit)
            assert cache.commits() == {a, c}
            await asyncio.sleep(TICK_SECONDS)
        await check_out(checkouts, d)
        assert cache.commits() == {a, d}
        await asyncio.sleep(TICK_SECONDS)
        await check_out(checkouts, a)
        await check_out(checkouts, b)
        assert cache.commits() == {a, b}
    async with cache.open(max_checkouts=1) as checkouts:
        await check_out(checkouts, c)
        assert cache.commits() == {c}
    async with cache.open():
        await until_gone(*cache.directory.glob("unfinished/*"))


async def test_cancelled_check_out_holds_no_checkout(repository: GitRepository, cache: Cache) -> None:
    commit, other = repository.commit(run="1"), repository.commit(run="2")
    async with cache.open(max_checkouts=1) as checkouts:
        for delayed in ("gate", "write_gate"):
            setattr(cache.mirror, delayed, asyncio.Event())
            task = asyncio.create_task(check_out(checkouts, commit))
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            getattr(cache.mirror, delayed).set()
        await check_out(checkouts, commit)
        await check_out(checkouts, other)
        assert cache.commits() == {other}


async def test_cancelled_check_out_delays_no_other(repository: GitRepository, cache: Cache) -> None:
    commit = repository.commit(run="1")
    async with cache.open() as checkouts:
        cache.mirror.gate = asyncio.Event()
        first, second = (asyncio.create_task(check_out(checkouts, "main")) for _ in range(2))
        await cache.mirror.fetch_started.wait()
        first.cancel()
        cache.mirror.gate.set()
        assert (await second).commit == commit
        assert cache.mirror.fetches == 1


async def test_known_commit_waits_for_no_fetch(repository: GitRepository, cache: Cache) -> None:
    commit = repository.commit(run="1")
    async with cache.open() as checkouts:
        await check_out(checkouts, commit)
        cache.mirror.gate = asyncio.Event()
        fetching = asyncio.create_task(check_out(checkouts, "main"))
        await asyncio.sleep(0)
        assert (await check_out(checkouts, commit)).commit == commit
        assert not fetching.done()
        cache.mirror.gate.set()
        await fetching


async def test_slow_checkout_of_a_new_commit_delays_no_other(repository: GitRepository, cache: Cache) -> None:
    commit = repository.commit(run="1")
    async with cache.open() as checkouts:
        await check_out(checkouts, commit)
        repository.git("checkout", "-q", "-b", "large")
        large = repository.commit(run="2")
        cache.mirror.write_gate = asyncio.Event()
        writing = asyncio.create_task(check_out(checkouts, "large"))
        while cache.mirror.writes < 2:  # noqa: ASYNC110 -- nothing tells when
            await asyncio.sleep(0.01)
        assert (await check_out(checkouts, "main")).commit == commit
        assert not writing.done()
        cache.mirror.write_gate.set()
        assert (await writing).commit == large


async def test_checkout_that_cannot_be_sealed_is_not_used(
    repository: GitRepository, cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.commit(run="1")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/chmod").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "bin/chmod").chmod(0o755)
    async with cache.open() as checkouts:
        with monkeypatch.context() as patched:
            patched.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
            with pytest.raises(GitFailed, match="its files could not be made read-only"):
                await check_out(checkouts, "main")
        assert cache.commits() == set()
        await check_out(checkouts, "main")


async def test_removed_checkout_is_made_again(repository: GitRepository, cache: Cache) -> None:
    commit = repository.commit(run="1")
    async with cache.open() as checkouts:
        directory = (await check_out(checkouts, commit)).directory
        await remove(directory)
        assert (await check_out(checkouts, commit)).directory == directory
        assert (directory / "run.py").exists()


async def test_start_removes_leftovers_of_a_killed_service(repository: GitRepository, cache: Cache) -> None:
    commit = repository.commit(run="1")
    async with cache.open() as checkouts:
        await check_out(checkouts, commit)
        unfinished = cache.paths.unfinished / "1"
        unfinished.mkdir()
        (unfinished / "half").touch()
        home = make_folder(cache.paths.homes / "1", None)
    another = cache.directory / "repositories/earlier/checkouts"
    another.mkdir(parents=True)
    async with cache.open():
        await until_gone(unfinished, home, another)
        assert cache.commits() == {commit}


async def test_second_service_waits_for_the_cache_or_is_refused(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harness_cache, "LOCK_ATTEMPTS", 2)
    async with cache.open():
        with pytest.raises(HarnessRefused, match=r"another service uses .*/cache: stop it, or set another"):
            async with cache.open():
                pass
    monkeypatch.undo()
    async with AsyncExitStack() as former:
        await former.enter_async_context(cache.open())
        latter = asyncio.create_task(_open_and_close(cache))
        await asyncio.sleep(0)
    await latter


async def test_unknown_ref_is_fetched_before_it_is_refused(repository: GitRepository, cache: Cache) -> None:
    repository.commit(run="1")
    async with cache.open() as checkouts:
        with pytest.raises(NoSuchRef):
            await check_out(checkouts, "soon")
        repository.branch("soon")
        await check_out(checkouts, "soon")


async def test_checkout_does_not_follow_links(
    repository: GitRepository, cache: Cache, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o755)
    (outside / "file").write_text("kept")
    (repository.path / "directory").symlink_to(outside)
    (repository.path / "file").symlink_to(outside / "file")
    (repository.path / "program").touch(0o700)
    first, second = repository.commit(run="1"), repository.commit(run="2")
    async with cache.open(max_checkouts=1) as checkouts:
        async with checkouts.check_out(first) as checkout:
            modes = [path.stat().st_mode & 0o777 for path in (outside, outside / "file")]
            assert modes == [0o755, 0o644]
            assert (checkout.directory / "program").stat().st_mode & 0o777 == 0o555
        await check_out(checkouts, second)
        assert cache.commits() == {second}
    async with cache.open():
        await until_gone(*cache.directory.glob("unfinished/*"))
    assert os.listdir(outside) == ["file"]


async def _open_and_close(cache: Cache) -> None:
    async with cache.open():
        pass
