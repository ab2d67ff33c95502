"""The cache directory of the harness; all of it can be created again. One service at a time uses it.

cache_dir/lock                              held by that service; the kernel releases it if it is killed
cache_dir/gitconfig                         the whole configuration of git
cache_dir/repositories/<hash>/mirror.git/   of the configured repository
cache_dir/repositories/<hash>/checkouts/<commit>/
cache_dir/unfinished/                       directories that are being created or removed
cache_dir/homes/<run>/home/                 the HOME of a run
cache_dir/homes/<run>/tmp/                  its /tmp in a sandbox; at its end all is moved to unfinished/
"""

import asyncio
import fcntl
import hashlib
import os
import stat
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import structlog

from storage.ids import new_id
from supervisors.clock import Clock

log = structlog.get_logger()

HASH_CHARACTERS = 16
MESSAGE_CHARACTERS = 300
BLOCK_BYTES = 4096  # the least that a file of any size counts in the folder of a run
SECTOR_BYTES = 512  # the unit of st_blocks
# The owner of directories without permissions may remove what is in them after giving them to himself.
REMOVE = 'rm -rf -- "$0" 2>/dev/null || { chmod -R u+rwx -- "$0"; rm -rf -- "$0"; }'
TRAVERSE_ONLY, PRIVATE, SEALED = 0o711, 0o700, 0o555
LOCK_POLL_SECONDS = 0.1
LOCK_ATTEMPTS = 150


class HarnessRefused(Exception):
    """The service cannot start with this harness; the message says why and what to do."""


class FolderRefused(Exception):
    """The folder of a run cannot be measured; the message says why."""


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
        for directory in (self.checkouts, self.root / "unfinished", self.homes):
            directory.mkdir(parents=True, exist_ok=True)
        # Independent of the umask: a run can reach its checkout and its home, but not list those of others.
        for directory in (self.repository.parent, self.repository, self.checkouts, self.homes):
            directory.chmod(TRAVERSE_ONLY)
        (self.root / "unfinished").chmod(PRIVATE)  # what a run left waits here for its removal
        others = set(self.repository.parent.iterdir()) - {self.repository}
        for leftover in (*others, *(self.homes).iterdir()):
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
        _seal(unfinished)
        unfinished.chmod(0o755)  # a directory without write permission cannot be moved
        unfinished.rename(self.checkouts / commit).chmod(SEALED)

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

    @property
    def homes(self) -> Path:
        return self.root / "homes"


def make_folder(folder: Path, owner: tuple[int, int] | None) -> Path:
    """Create the folder of one run; `owner` of what is in it is a (uid, gid) pair, None for this service."""
    folder.mkdir()
    folder.chmod(TRAVERSE_ONLY)
    for name in ("home", "tmp"):
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


async def remove(tree: Path) -> None:
    """Remove a file or a directory tree, whatever is in it. Log what cannot be removed."""
    process = await asyncio.create_subprocess_exec("sh", "-c", REMOVE, str(tree), stdin=DEVNULL, stderr=PIPE)
    try:
        _, message = await process.communicate()
    except asyncio.CancelledError:
        process.terminate()
        raise
    if process.returncode:
        reason = message.decode(errors="replace").strip()[-MESSAGE_CHARACTERS:]
        log.warning("a directory that a run left cannot be removed", reason=reason)


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


def _seal(tree: Path) -> None:
    """Make the tree readable for everybody and writable for nobody."""
    pending = [os.fspath(tree)]
    while pending:
        directory = pending.pop()
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                elif not entry.is_symlink():
                    os.chmod(entry.path, SEALED if entry.stat().st_mode & stat.S_IXUSR else 0o444)
        os.chmod(directory, SEALED)


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
