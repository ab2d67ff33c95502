"""The cache directory of the harness; all of it can be created again. One service at a time uses it.

cache_dir/lock                              held by that service and the guardian of its runs
cache_dir/gitconfig                         the whole configuration of git
cache_dir/repositories/<hash>/mirror.git/   of the configured repository
cache_dir/repositories/<hash>/checkouts/<commit>/
cache_dir/unfinished/                       directories that are being created or removed
cache_dir/homes/<run>/home/                 the HOME of a run
cache_dir/homes/<run>/{tmp,shm}/            its /tmp and /dev/shm in a sandbox

At the end of a run its folder is moved to unfinished/.
"""

import asyncio
import fcntl
import hashlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO

from storage.ids import new_id
from supervisors.clock import Clock

HASH_CHARACTERS = 16
BLOCK_BYTES = 4096  # the least that a file of any size counts in the folder of a run
SECTOR_BYTES = 512  # the unit of st_blocks
TRAVERSE_ONLY, PRIVATE = 0o711, 0o700
LOCK_POLL_SECONDS = 0.1
LOCK_ATTEMPTS = 150


class HarnessRefused(Exception):
    """The service cannot start with this harness; the message says why and what to do."""


class FolderRefused(Exception):
    """The folder of a run cannot be measured; the message says why."""


class HarnessCache:
    """The directories in the cache. All methods block, if only for a moment. `lock` is an open descriptor."""

    def __init__(self, root: Path, repository: str, lock: int) -> None:
        name = hashlib.sha256(repository.encode()).hexdigest()[:HASH_CHARACTERS]
        self.root = root
        self.lock = lock
        self.repository = root / "repositories" / name
        self.mirror = self.repository / "mirror.git"
        self.checkouts = self.repository / "checkouts"
        self.unfinished = root / "unfinished"
        self.homes = root / "homes"

    def prepare(self) -> list[Path]:
        """Create the directories. Return the leftovers of a killed service, moved aside for their removal."""
        # Independent of the umask: a run can reach its checkout and its home, but not list those of others.
        for directory in (self.repository.parent, self.repository, self.checkouts, self.homes):
            directory.mkdir(parents=True, exist_ok=True)
            directory.chmod(TRAVERSE_ONLY)
        self.unfinished.mkdir(exist_ok=True)
        self.unfinished.chmod(PRIVATE)  # what a run left waits here for its removal
        others = set(self.repository.parent.iterdir()) - {self.repository}
        for leftover in (*others, *self.homes.iterdir()):
            self.move_aside(leftover)
        return list(self.unfinished.iterdir())

    def move_aside(self, directory: Path) -> Path:
        """Free the name of a directory in one step. Return its new path, from which the caller removes it."""
        if not directory.is_symlink():
            directory.chmod(PRIVATE)  # a directory without write permission cannot be moved
        return directory.rename(self.unfinished / str(new_id()))


def make_folder(folder: Path, owner: tuple[int, int] | None) -> Path:
    """Create the folder of one run; `owner` of what is in it is a (uid, gid) pair, None for this service."""
    folder.mkdir()
    folder.chmod(TRAVERSE_ONLY)
    for name in ("home", "tmp", "shm"):
        (folder / name).mkdir(mode=PRIVATE)
        if owner is not None:
            os.chown(folder / name, *owner)
    return folder


def measure_folder(folder: Path, enough: int) -> int:
    """Return how many bytes the folder of a run takes; stop beyond `enough`. Raise FolderRefused.

    A file with several names counts in parts, so that it counts once if all of them are in the folder.
    """
    total, pending = 0, [os.fspath(folder)]
    while pending and total <= enough:
        with suppress(FileNotFoundError, NotADirectoryError):  # the run has changed it
            total += _measure_directory(pending.pop(), enough - total, pending)
    return total


def _measure_directory(directory: str, enough: int, pending: list[str]) -> int:
    total = 0
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    is_directory = entry.is_dir(follow_symlinks=False)
                    names = 1 if is_directory else max(status.st_nlink, 1)
                    total += max(status.st_blocks * SECTOR_BYTES, BLOCK_BYTES) // names
                    if is_directory:
                        pending.append(entry.path)
                if total > enough:
                    break
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        raise FolderRefused(f"a directory in its HOME cannot be measured: {error.strerror}") from error
    return total


@asynccontextmanager
async def open_cache(directory: Path, repository: str, clock: Clock) -> AsyncIterator[HarnessCache]:
    """Lock the cache. Raise HarnessRefused if another service uses it, and OSError if it is not writable."""
    root = await asyncio.to_thread(_make_root, directory)
    with (root / "lock").open("a") as lock:
        # A process that was found dead, or is being replaced, needs a moment to end.
        for _ in range(LOCK_ATTEMPTS):
            if _try_lock(lock):
                break
            await clock.sleep(LOCK_POLL_SECONDS)
        else:
            raise HarnessRefused(f"another service uses {root}: stop it, or set another harness.cache_dir")
        yield HarnessCache(root, repository, lock.fileno())


def _make_root(directory: Path) -> Path:
    root = directory.expanduser().resolve()  # bubblewrap mounts on no symbolic link
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
