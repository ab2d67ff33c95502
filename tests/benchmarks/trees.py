"""The code to measure: this tree, and that of another commit to compare it with."""

import subprocess
import sys
import tarfile
from asyncio import create_subprocess_exec
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from tests.acceptance.process import Process
from tests.paths import ROOT


@dataclass(frozen=True, slots=True)
class Tree:
    """A directory with the code of the service."""

    name: str
    path: Path
    module: str = "hostsvc"

    async def launch(
        self, arguments: Sequence[str], directory: Path, environment: Mapping[str, str], log: IO[bytes]
    ) -> Process:
        """Start `hostsvc` of this tree with the interpreter and the packages that run the benchmarks."""
        return await create_subprocess_exec(
            *(sys.executable, "-m", self.module, *arguments),
            cwd=directory,
            env={**environment, "PYTHONPATH": str(self.path)},
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=log,
        )


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
