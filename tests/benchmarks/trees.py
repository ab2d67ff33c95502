"""The code to measure: this tree, and that of another commit to compare it with."""

import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.acceptance.process import Launch, launched_by
from tests.paths import ROOT


@dataclass(frozen=True, slots=True)
class Tree:
    """A directory with the code of the service."""

    name: str
    path: Path
    module: str = "hostsvc"
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def launch(self) -> Launch:
        """Return how to start `hostsvc` of this tree with the packages that run the benchmarks."""
        return launched_by("-m", self.module, PYTHONPATH=str(self.path), **self.variables)


HERE = Tree("service", ROOT)


@contextmanager
def other_tree(reference: str) -> Iterator[Tree]:
    """Extract the code of another commit into a temporary directory.

    An archive is enough, and unlike a worktree it leaves nothing in the repository if this process is killed.
    """
    commit = _git("rev-parse", "--short", f"{reference}^{{commit}}").decode().strip()
    with TemporaryDirectory(prefix="hostsvc-bench-tree-") as directory:
        archive = Path(directory) / "tree.tar"
        archive.write_bytes(_git("archive", commit))
        with tarfile.open(archive) as files:
            files.extractall(Path(directory) / "tree", filter="data")
        yield Tree(reference, Path(directory) / "tree")


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
