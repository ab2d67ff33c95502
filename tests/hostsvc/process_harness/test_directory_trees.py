"""Trees of untrusted code: sealed and removed completely at any depth and with any permissions."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from hostsvc.process_harness.directory_trees import files_below, remove, seal

DEPTH = 3000  # over the limits of recursion (1,000) and of the length of paths (4,096)


def make_deep(tree: Path) -> Path:
    """Create a tree whose innermost paths exceed the maximum length of a path."""
    tree.mkdir()
    # In another process, because it changes the working directory.
    code = f"import os\nfor _ in range({DEPTH}): os.mkdir('d'); os.chdir('d'); open('f', 'w')"
    subprocess.run([sys.executable, "-S", "-c", code], cwd=tree, check=True)
    return tree


def test_remove_deletes_tree_deeper_than_longest_path(tmp_path: Path) -> None:
    remove(make_deep(tmp_path / "tree"))
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user without all permissions")
def test_remove_deletes_tree_without_permissions(tmp_path: Path) -> None:
    code = """if True:
        import os, pwd, sys
        from pathlib import Path
        from hostsvc.process_harness.directory_trees import remove
        os.chdir(sys.argv[1])
        os.setuid(pwd.getpwnam("nobody").pw_uid)
        os.makedirs("tree/a/b")
        open("tree/a/b/file", "w").close()
        for directory in ("tree/a/b", "tree/a", "tree"):
            os.chmod(directory, 0)
        remove(Path("tree"))
    """
    tmp_path.chmod(0o777)
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    assert os.listdir(tmp_path) == []


def test_seal_and_remove_do_not_follow_links(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o755)
    (outside / "file").write_text("kept")
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "directory").symlink_to(outside)
    (tree / "file").symlink_to(outside / "file")
    seal(tree)
    remove(tree)
    assert os.listdir(tmp_path) == ["outside"]
    assert [stat.S_IMODE(path.stat().st_mode) for path in (outside, outside / "file")] == [0o755, 0o644]


def test_remove_deletes_a_file_and_ignores_a_missing_one(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    remove(tmp_path / "file")
    remove(tmp_path / "file")
    assert os.listdir(tmp_path) == []


def test_seal_makes_tree_readable_and_read_only(tmp_path: Path) -> None:
    tree = below = tmp_path / "tree"
    tree.mkdir()
    for _ in range(DEPTH // 2):
        below /= "d"
        below.mkdir()
    for mode in (0o600, 0o755, 0o700):
        (below / f"{mode:o}").touch(mode)
    seal(tree)
    modes = {path.name: f"{stat.S_IMODE(path.stat().st_mode):o}" for path in files_below(tree)}
    assert modes == {"600": "444", "755": "555", "700": "555"}
    assert stat.S_IMODE(tree.stat().st_mode) == stat.S_IMODE(below.stat().st_mode) == 0o555
    remove(tree)
