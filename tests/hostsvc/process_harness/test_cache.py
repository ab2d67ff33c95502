"""The cache directory: checkouts appear and disappear in one step, and homes belong to one run."""

import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import pytest

from hostsvc.process_harness.cache import HarnessCache, open_cache
from supervisors.clock import SystemClock


@pytest.fixture
async def cache(tmp_path: Path) -> AsyncIterator[HarnessCache]:
    async with open_cache(tmp_path / "cache", "/srv/agents.git", SystemClock()) as cache:
        assert cache.prepare() == []
        yield cache


def publish(cache: HarnessCache, commit: str) -> None:
    unfinished = cache.make_unfinished()
    (unfinished / "run.py").write_text("print()")
    cache.publish(unfinished, commit)


async def test_published_checkout_is_complete_and_read_only(cache: HarnessCache) -> None:
    publish(cache, "abc")
    assert cache.commits() == ["abc"]
    assert (cache.checkouts / "abc/run.py").read_text() == "print()"
    assert stat.S_IMODE((cache.checkouts / "abc").stat().st_mode) == 0o555
    assert list((cache.root / "unfinished").iterdir()) == []


async def test_unpublished_checkout_is_gone_at_once(cache: HarnessCache) -> None:
    publish(cache, "abc")
    aside = cache.unpublish("abc")
    assert cache.commits() == []
    assert (aside / "run.py").exists()


async def test_commits_are_listed_least_recently_used_first(cache: HarnessCache) -> None:
    for seconds, commit in ((300, "a"), (200, "b"), (100, "c")):
        publish(cache, commit)
        os.utime(cache.checkouts / commit, (seconds, seconds))
    assert cache.commits() == ["c", "b", "a"]
    assert cache.touch("c")
    assert cache.commits() == ["b", "a", "c"]
    assert not cache.touch("nowhere")


async def test_home_is_private_to_its_run(cache: HarnessCache) -> None:
    home = cache.make_home(UUID(int=1), None)
    assert home == cache.root / "homes" / str(UUID(int=1))
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    with pytest.raises(FileExistsError):
        cache.make_home(UUID(int=1), None)


async def test_home_that_is_moved_aside_is_out_of_reach(cache: HarnessCache) -> None:
    home = cache.make_home(UUID(int=1), None)
    home.chmod(0)
    aside = cache.move_aside(home)
    assert not home.exists()
    assert [stat.S_IMODE(path.stat().st_mode) for path in (aside, aside.parent)] == [0o700, 0o700]
    assert cache.prepare() == [aside], "the next start removes it"


async def test_repositories_have_separate_directories(tmp_path: Path) -> None:
    directories = []
    for repository in ("/srv/a.git", "/srv/b.git", "/srv/a.git"):
        async with open_cache(tmp_path / "cache", repository, SystemClock()) as cache:
            directories.append(cache.repository)
    assert directories[0] == directories[2] != directories[1]
