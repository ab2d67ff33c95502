"""The code of another commit."""

import subprocess

import pytest

from tests.benchmarks.trees import other_tree


def test_other_tree_holds_the_code_of_a_commit() -> None:
    with other_tree("HEAD") as tree:
        assert tree.name == "HEAD"
        assert (tree.path / "hostsvc" / "service.py").is_file()
    assert not tree.path.exists()


def test_unknown_commit_is_refused() -> None:
    with pytest.raises(subprocess.CalledProcessError), other_tree("no-such-commit"):
        pass
