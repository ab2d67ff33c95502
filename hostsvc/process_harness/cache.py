"""The cache directory of the harness; all of it can be created again. One service at a time uses it.

cache_dir/lock                              held by that service; the kernel releases it if it is killed
cache_dir/gitconfig                         the whole configuration of git
cache_dir/repositories/<hash>/mirror.git/   of the configured repository
cache_dir/repositories/<hash>/checkouts/<commit>/
cache_dir/unfinished/                       directories that are being created or removed
cache_dir/homes/<run>/                      the HOME of a run, moved to unfinished/ at its end
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

from hostsvc.process_harness.directory_trees import EXECUTABLE, READ_ONLY, seal
from storage.ids import new_id
from supervisors.clock import Clock

HASH_CHARACTERS = 16
TRAVERSE_ONLY, PRIVATE = 0o711, 0o700
LOCK_POLL_SECONDS = 0.1
LOCK_ATTEMPTS = 150


class HarnessRefused(Exception):
    """The service cannot start with this harness; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class HarnessCache:
    """The paths in the cache, and the operations on them. All methods block, if only for a moment."""

    root: Path
    repository: Path

    @property
    def mirror(self) -> Path:
        return self.repository / "mirror.git"

    @property
    def checkouts(self) -> Path:
        return self.repository / "checkouts"

    def prepare(self) -> list[Path]:
        """Create the directories. Return the leftovers of a killed service, moved aside for their removal."""
        for directory in (self.checkouts, self.root / "unfinished", self.root / "homes"):
            directory.mkdir(parents=True, exist_ok=True)
        # Independent of the umask: a run can reach its checkout and its home, but not list those of others.
        for directory in (self.repository.parent, self.repository, self.checkouts, self.root / "homes"):
            directory.chmod(TRAVERSE_ONLY)
        (self.root / "unfinished").chmod(PRIVATE)  # what a run left waits here for its removal
        others = set(self.repository.parent.iterdir()) - {self.repository}
        for leftover in (*others, *(self.root / "homes").iterdir()):
            self.move_aside(leftover)
        return list((self.root / "unfinished").iterdir())

    def commits(self) -> list[str]:
        """Return the commits that are checked out, least recently used first."""
        return [path.name for path in sorted(self.checkouts.iterdir(), key=lambda path: path.stat().st_mtime)]

    def make_unfinished(self) -> Path:
        """Create an empty directory for a new checkout."""
        unfinished = self.root / "unfinished" / str(new_id())
        unfinished.mkdir()
        return unfinished

    def publish(self, unfinished: Path, commit: str) -> None:
        """Move a complete checkout to its place, readable by everybody and writable by nobody."""
        seal(unfinished)
        unfinished.chmod(0o755)  # a directory without write permission cannot be moved
        checkout = unfinished.rename(self.checkouts / commit)
        checkout.chmod(READ_ONLY | EXECUTABLE)

    def touch(self, commit: str) -> bool:
        """Mark a checkout as used now. Return whether it exists."""
        try:
            os.utime(self.checkouts / commit)
        except FileNotFoundError:
            return False
        return True

    def unpublish(self, commit: str) -> Path:
        """Take a checkout away in one step. Return its new path, from which the caller removes it."""
        return self.move_aside(self.checkouts / commit)

    def move_aside(self, directory: Path) -> Path:
        """Free the name of a directory in one step. Return its new path, from which the caller removes it."""
        if not directory.is_symlink():
            directory.chmod(PRIVATE)  # a directory without write permission cannot be moved
        return directory.rename(self.root / "unfinished" / str(new_id()))

    def make_home(self, run_id: UUID, owner: tuple[int, int] | None) -> Path:
        """Create an empty directory for one run; `owner` is a (uid, gid) pair, None for our own."""
        home = self.root / "homes" / str(run_id)
        home.mkdir(mode=0o700)
        if owner is not None:
            os.chown(home, *owner)
        return home


@asynccontextmanager
async def open_cache(directory: Path, repository: str, clock: Clock) -> AsyncIterator[HarnessCache]:
    """Lock the cache. Raise HarnessRefused if another service uses it, and OSError if it is not writable."""
    root = await asyncio.to_thread(_make_root, directory)
    with (root / "lock").open("a") as lock:
        # A service that has just lost the lead to this one needs a moment to end.
        for _ in range(LOCK_ATTEMPTS):
            if _try_lock(lock):
                break
            await clock.sleep(LOCK_POLL_SECONDS)
        else:
            raise HarnessRefused(f"another service uses {root}: stop it, or set another harness.cache_dir")
        name = hashlib.sha256(repository.encode()).hexdigest()[:HASH_CHARACTERS]
        yield HarnessCache(root, root / "repositories" / name)


def _make_root(directory: Path) -> Path:
    root = directory.expanduser().absolute()
    if not root.exists():
        root.mkdir(parents=True)
        root.chmod(TRAVERSE_ONLY)
    return root


def _try_lock(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
