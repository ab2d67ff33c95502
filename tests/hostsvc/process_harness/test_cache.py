"""The cache directory: each repository has its own, and folders belong to one run and are measured."""

import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hostsvc.process_harness.cache import (
    BLOCK_BYTES,
    FolderRefused,
    HarnessCache,
    make_folder,
    measure_folder,
    open_cache,
)
from hostsvc.process_harness.programs import remove
from supervisors.clock import SystemClock
from tests.hostsvc.process_harness.specs import make_deep


@pytest.fixture
async def cache(tmp_path: Path) -> AsyncIterator[HarnessCache]:
    async with open_cache(tmp_path / "cache", "/srv/agents.git", SystemClock()) as cache:
        assert cache.prepare() == []
        yield cache


async def test_folder_is_private_to_its_run(cache: HarnessCache) -> None:
    folder = make_folder(cache.homes / "1", None)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert modes == {"home": 0o700, "tmp": 0o700, "shm": 0o700}
    with pytest.raises(FileExistsError):
        make_folder(cache.homes / "1", None)


async def test_folder_that_is_moved_aside_is_out_of_reach(cache: HarnessCache) -> None:
    folder = make_folder(cache.homes / "1", None)
    folder.chmod(0)
    aside = cache.move_aside(folder)
    assert not folder.exists()
    assert [stat.S_IMODE(path.stat().st_mode) for path in (aside, aside.parent)] == [0o700, 0o700]
    assert cache.prepare() == [aside], "the next start removes it"


async def test_repositories_have_separate_directories(tmp_path: Path) -> None:
    directories = []
    for repository in ("/srv/a.git", "/srv/b.git", "/srv/a.git"):
        async with open_cache(tmp_path / "cache", repository, SystemClock()) as cache:
            directories.append(cache.repository)
    assert directories[0] == directories[2] != directories[1]


ENOUGH = 10**9


async def test_folder_deeper_than_longest_path_is_refused(tmp_path: Path) -> None:
    tree = make_deep(tmp_path / "tree")
    with pytest.raises(FolderRefused, match="a directory in its HOME cannot be measured: File name too long"):
        measure_folder(tree, ENOUGH)
    await remove(tree)


def test_folder_counts_every_file_and_its_names_once(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below/large").write_bytes(os.urandom(10 * BLOCK_BYTES))
    for number in range(3):
        os.link(tmp_path / "below/large", tmp_path / f"name{number}")
        (tmp_path / f"empty{number}").touch()
        (tmp_path / f"link{number}").symlink_to("/")
    assert measure_folder(tmp_path, ENOUGH) == (1 + 10 + 3 + 3) * BLOCK_BYTES


def test_measurement_ends_when_there_is_enough(tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / str(number)).touch()
    assert measure_folder(tmp_path, 10 * BLOCK_BYTES) == 11 * BLOCK_BYTES
