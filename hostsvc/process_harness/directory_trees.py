"""Directory trees written by untrusted code: of any depth, with any permissions.

Nothing here recurses, follows a symbolic link, or changes permissions of a directory by its path, which the
owner of the tree could replace by a link.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from storage.ids import new_id

READ_ONLY, EXECUTABLE = 0o444, 0o111
OWN_DIRECTORY = 0o700
DIRECTORY_ONLY = os.O_DIRECTORY | os.O_NOFOLLOW


def remove(path: Path) -> None:
    """Remove a file or a directory tree, as far as possible."""
    for _ in removal_steps(path):
        pass


def removal_steps(path: Path) -> Iterator[None]:
    """Remove a file or a directory tree, as far as possible; yield after each file and directory.

    Subdirectories are moved up to the top one by one, so that no path is longer than a name.
    """
    try:
        path.unlink(missing_ok=True)
    except IsADirectoryError:
        with suppress(OSError), _opened(str(path)) as top:
            pending = os.listdir(top)
            while pending:
                yield from _remove_level(pending.pop(), top, pending)
            path.rmdir()


def seal(tree: Path) -> None:
    """Make the tree readable for everybody and writable for nobody."""
    with _opened(str(tree)) as top:
        pending = ["."]
        while pending:
            path = pending.pop()
            directory = os.open(path, os.O_RDONLY | DIRECTORY_ONLY, dir_fd=top)
            try:
                pending += [f"{path}/{name}" for name in _seal_files(directory)]
                os.fchmod(directory, READ_ONLY | EXECUTABLE)
            finally:
                os.close(directory)


def files_below(directory: Path) -> Iterator[Path]:
    """Yield everything below that is not a directory; files may disappear while this runs."""
    pending = [directory]
    while pending:
        with suppress(FileNotFoundError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(Path(entry.path))
                else:
                    yield Path(entry.path)


def _remove_level(name: str, top: int, pending: list[str]) -> Iterator[None]:
    """Remove an entry of `top`; move its subdirectories into `top` and add their new names to `pending`."""
    with suppress(OSError):
        if not _unlink(name, top):
            with _opened(name, top) as directory:
                for below in os.listdir(directory):
                    if not _unlink(below, directory):
                        pending.append(_move_up(below, directory, top))
                    yield
            os.rmdir(name, dir_fd=top)
    yield


def _move_up(name: str, directory: int, top: int) -> str:
    new_name = str(new_id())
    with _opened(name, directory):  # makes it writable: otherwise it cannot be moved
        os.rename(name, new_name, src_dir_fd=directory, dst_dir_fd=top)
    return new_name


def _unlink(name: str, directory: int) -> bool:
    """Remove a file. Return False if it is a directory."""
    try:
        os.unlink(name, dir_fd=directory)
    except IsADirectoryError:
        return False
    return True


def _seal_files(directory: int) -> list[str]:
    """Seal the files of a directory and return the names of its subdirectories."""
    below: list[str] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                below.append(entry.name)
            elif not entry.is_symlink():
                is_program = entry.stat().st_mode & stat.S_IXUSR
                mode = READ_ONLY | EXECUTABLE if is_program else READ_ONLY
                os.chmod(entry.name, mode, dir_fd=directory)
    return below


@contextmanager
def _opened(name: str, within: int | None = None) -> Iterator[int]:
    """Open a directory, after making it accessible for its owner."""
    handle = os.open(name, os.O_PATH | DIRECTORY_ONLY, dir_fd=within)
    try:
        os.chmod(f"/proc/self/fd/{handle}", OWN_DIRECTORY)
        directory = os.open(".", os.O_RDONLY, dir_fd=handle)
    finally:
        os.close(handle)
    try:
        yield directory
    finally:
        os.close(directory)
