"""Trees of directories that others made: as deep as they like, and with whatever rights.

So nothing here recurses, follows a symbolic link, or changes the rights of a directory by its path, which may
be a link by then that the owner of the tree has put there.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from storage.ids import new_id

READ_ONLY, EXECUTABLE = 0o444, 0o111
OWN_DIRECTORY = 0o700
A_DIRECTORY = os.O_DIRECTORY | os.O_NOFOLLOW


def remove(path: Path) -> None:
    """Remove a file or a directory as far as that can be done.

    What is below comes up first, directory by directory, so no path grows longer than its name.
    """
    try:
        path.unlink(missing_ok=True)
    except IsADirectoryError:
        with suppress(OSError), _opened(str(path)) as top:
            pending = os.listdir(top)
            while pending:
                pending += _take_apart(pending.pop(), top)
            path.rmdir()


def seal(tree: Path) -> None:
    """Let all read what is in the tree, and nobody write it."""
    with _opened(str(tree)) as top:
        pending = ["."]
        while pending:
            place = pending.pop()
            directory = os.open(place, os.O_RDONLY | A_DIRECTORY, dir_fd=top)
            try:
                pending += [f"{place}/{name}" for name in _seal_files(directory)]
                os.fchmod(directory, READ_ONLY | EXECUTABLE)
            finally:
                os.close(directory)


def files_below(directory: Path) -> Iterator[Path]:
    """All that is no directory, wherever it lies; some of it may go meanwhile."""
    pending = [directory]
    while pending:
        with suppress(FileNotFoundError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(Path(entry.path))
                else:
                    yield Path(entry.path)


def _take_apart(name: str, top: int) -> list[str]:
    """Remove an entry of `top`; the directories it held become entries of `top`, whose names are returned."""
    raised: list[str] = []
    with suppress(OSError):
        if _unlinked(name, top):
            return []
        with _opened(name, top) as directory:
            left = (below for below in os.listdir(directory) if not _unlinked(below, directory))
            raised.extend(_raised(below, directory, top) for below in left)
        os.rmdir(name, dir_fd=top)
    return raised


def _raised(name: str, directory: int, top: int) -> str:
    fresh = str(new_id())
    with _opened(name, directory):  # one that cannot be written cannot be moved either
        os.rename(name, fresh, src_dir_fd=directory, dst_dir_fd=top)
    return fresh


def _unlinked(name: str, directory: int) -> bool:
    """Whether it is gone; a directory is not."""
    try:
        os.unlink(name, dir_fd=directory)
    except IsADirectoryError:
        return False
    return True


def _seal_files(directory: int) -> list[str]:
    """The names of the directories in it."""
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
    """A directory, opened after it was given the rights for that."""
    place = os.open(name, os.O_PATH | A_DIRECTORY, dir_fd=within)
    try:
        os.chmod(f"/proc/self/fd/{place}", OWN_DIRECTORY)
        directory = os.open(".", os.O_RDONLY, dir_fd=place)
    finally:
        os.close(place)
    try:
        yield directory
    finally:
        os.close(directory)
