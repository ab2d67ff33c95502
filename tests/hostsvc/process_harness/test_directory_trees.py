"""Trees that others made: sealed and removed whole, however deep and closed they are."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from hostsvc.process_harness.directory_trees import files_below, remove, seal

DEPTH = 3000  # Python recurses 1,000 times; a path has 4,096 characters


def deep(tree: Path) -> Path:
    """A tree whose innermost paths are longer than a path may be."""
    tree.mkdir()
    # In a process of its own, as it changes its working directory.
    code = f"import os\nfor _ in range({DEPTH}): os.mkdir('d'); os.chdir('d'); open('f', 'w')"
    subprocess.run([sys.executable, "-S", "-c", code], cwd=tree, check=True)
    return tree


def test_a_tree_deeper_than_a_path_may_be_is_removed(tmp_path: Path) -> None:
    remove(deep(tmp_path / "tree"))
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody who has not all rights")
def test_a_tree_that_its_owner_closed_is_removed(tmp_path: Path) -> None:
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


def test_what_a_link_leads_to_is_left_alone(tmp_path: Path) -> None:
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


def test_a_file_and_what_is_not_there_are_removed(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    remove(tmp_path / "file")
    remove(tmp_path / "file")
    assert os.listdir(tmp_path) == []


def test_a_sealed_tree_is_read_by_all_and_written_by_nobody(tmp_path: Path) -> None:
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
