"""The cache directory: checkouts appear and disappear in one step, and homes belong to one run."""

import os
import stat
import subprocess
import sys
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
    remove,
)
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


async def test_folder_is_private_to_its_run(cache: HarnessCache) -> None:
    folder = make_folder(cache.homes / "1", None)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert modes == {"home": 0o700, "tmp": 0o700}
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
DEPTH, NAME = 25, "d" * 200  # together over the limit of the length of paths (4,096)


def make_deep(tree: Path) -> Path:
    """Create a tree whose innermost paths exceed the maximum length of a path."""
    tree.mkdir()
    # In another process, because it changes the working directory.
    code = f"import os\nfor _ in range({DEPTH}): os.mkdir('{NAME}'); os.chdir('{NAME}'); open('f', 'w')"
    subprocess.run([sys.executable, "-S", "-c", code], cwd=tree, check=True)
    return tree


async def test_remove_deletes_tree_deeper_than_longest_path(tmp_path: Path) -> None:
    tree = make_deep(tmp_path / "tree")
    with pytest.raises(FolderRefused, match="a directory in its HOME cannot be measured: File name too long"):
        measure_folder(tree, ENOUGH)
    await remove(tree)
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user without all permissions")
def test_remove_deletes_tree_without_permissions(tmp_path: Path) -> None:
    code = """if True:
        import asyncio, os, pwd, sys
        from pathlib import Path
        from hostsvc.process_harness.cache import remove
        os.chdir(sys.argv[1])
        os.setuid(pwd.getpwnam("nobody").pw_uid)
        os.makedirs("tree/a/b")
        open("tree/a/b/file", "w").close()
        for directory in ("tree/a/b", "tree/a", "tree"):
            os.chmod(directory, 0)
        asyncio.run(remove(Path("tree")))
    """
    tmp_path.chmod(0o777)
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    assert os.listdir(tmp_path) == []


async def test_publish_and_remove_do_not_follow_links(cache: HarnessCache, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o755)
    (outside / "file").write_text("kept")
    tree = cache.make_unfinished()
    (tree / "directory").symlink_to(outside)
    (tree / "file").symlink_to(outside / "file")
    (tree / "program").touch(0o700)
    cache.publish(tree, "abc")
    modes = [path.stat().st_mode & 0o777 for path in (outside, outside / "file")]
    assert modes == [0o755, 0o644]
    assert (cache.checkouts / "abc/program").stat().st_mode & 0o777 == 0o555
    await remove(cache.unpublish("abc"))
    assert os.listdir(outside) == ["file"]
    assert list((cache.root / "unfinished").iterdir()) == []


async def test_remove_deletes_a_file_and_ignores_a_missing_one(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    await remove(tmp_path / "file")
    await remove(tmp_path / "file")
    assert os.listdir(tmp_path) == []


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
