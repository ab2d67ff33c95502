"""The directory in which the harness keeps what it can make again. One service at a time uses it.

cache_dir/lock                              held by that service; the kernel lets go of it for a killed one
cache_dir/gitconfig                         all the configuration that git is given
cache_dir/repositories/<hash>/mirror.git/   of the one repository that is configured
cache_dir/repositories/<hash>/checkouts/<commit>/
cache_dir/unfinished/                       what is being made or removed
cache_dir/homes/<run>/                      the HOME of a run, for as long as it goes on
"""

import asyncio
import fcntl
import hashlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from uuid import UUID

from hostsvc.process_harness.directory_trees import EXECUTABLE, READ_ONLY, remove, seal
from storage.ids import new_id
from supervisors.clock import Clock

HASH_CHARACTERS = 16
PASSAGE = 0o711
POLL_SECONDS = 0.1
ATTEMPTS = 150


class HarnessRefused(Exception):
    """The service may not start with this harness; the message says what to do."""


@dataclass(frozen=True, slots=True)
class HarnessCache:
    """Where everything is. All methods block, if only for a moment."""

    root: Path
    repository: Path

    @property
    def mirror(self) -> Path:
        return self.repository / "mirror.git"

    @property
    def checkouts(self) -> Path:
        return self.repository / "checkouts"

    def clear(self) -> None:
        """Remove what a killed service left, and what is of another repository."""
        for directory in (self.checkouts, self.root / "unfinished", self.root / "homes"):
            directory.mkdir(parents=True, exist_ok=True)
        # Whatever the umask: a run gets to its checkout and its home, but need not see those of others.
        for directory in (self.repository.parent, self.repository, self.checkouts, self.root / "homes"):
            directory.chmod(PASSAGE)
        others = set(self.repository.parent.iterdir()) - {self.repository}
        for left in (*others, *(self.root / "unfinished").iterdir(), *(self.root / "homes").iterdir()):
            remove(left)

    def commits(self) -> list[str]:
        """What is checked out, least recently used first."""
        return [path.name for path in sorted(self.checkouts.iterdir(), key=lambda path: path.stat().st_mtime)]

    def begin(self) -> Path:
        """An empty directory of its own, for a checkout in the making."""
        fresh = self.root / "unfinished" / str(new_id())
        fresh.mkdir()
        return fresh

    def keep(self, fresh: Path, commit: str) -> None:
        """Put what was made in its place, readable by all and writable by nobody."""
        seal(fresh)
        fresh.chmod(0o755)  # what cannot be written cannot be moved either
        place = fresh.rename(self.checkouts / commit)
        place.chmod(READ_ONLY | EXECUTABLE)

    def touch(self, commit: str) -> bool:
        """Note that a checkout is used; whether it is there."""
        try:
            os.utime(self.checkouts / commit)
        except FileNotFoundError:
            return False
        return True

    def set_aside(self, commit: str) -> Path:
        """Take a checkout away in one step; where it is to be removed from."""
        place = self.checkouts / commit
        place.chmod(0o755)
        return place.rename(self.root / "unfinished" / str(new_id()))

    def make_home(self, run_id: UUID, owner: tuple[int, int] | None) -> Path:
        """An empty directory for a run alone; `owner`: the ids of its user and group, if not ours."""
        home = self.root / "homes" / str(run_id)
        home.mkdir(mode=0o700)
        if owner is not None:
            os.chown(home, *owner)
        return home


@asynccontextmanager
async def open_cache(directory: Path, repository: str, clock: Clock) -> AsyncIterator[HarnessCache]:
    """The cache for as long as the block lasts; raises HarnessRefused, and OSError if it is not writable."""
    root = await asyncio.to_thread(_made, directory)
    with (root / "lock").open("a") as lock:
        # A service that has just lost the lead to this one takes a moment to end.
        for _ in range(ATTEMPTS):
            if _is_taken(lock):
                break
            await clock.sleep(POLL_SECONDS)
        else:
            raise HarnessRefused(f"another service uses {root}: end it, or set another harness.cache_dir")
        name = hashlib.sha256(repository.encode()).hexdigest()[:HASH_CHARACTERS]
        yield HarnessCache(root, root / "repositories" / name)


def _made(directory: Path) -> Path:
    root = directory.expanduser().absolute()
    if not root.exists():
        root.mkdir(parents=True)
        root.chmod(PASSAGE)
    return root


def _is_taken(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
