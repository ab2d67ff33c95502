"""System calls of Linux that the standard library lacks, and what /proc says about processes."""

import ctypes
import os
from typing import NamedTuple

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38

CLONE_NEWNS = 0x0002_0000
CLONE_NEWIPC = 0x0800_0000
CLONE_NEWUSER = 0x1000_0000
CLONE_NEWPID = 0x2000_0000
CLONE_NEWNET = 0x4000_0000

MS_NOSUID, MS_NODEV, MS_NOEXEC = 2, 4, 8
MS_REC, MS_PRIVATE = 1 << 14, 1 << 18

LIBC = ctypes.CDLL(None, use_errno=True)
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class ProcessUse(NamedTuple):
    """What one process uses: its threads, its resident memory, its CPU time with its children's."""

    threads: int
    resident_bytes: int
    cpu_seconds: float


def prctl(option: int, value: int) -> None:
    """Change a property of this process. Raise OSError."""
    _check(LIBC.prctl(option, value, 0, 0, 0))


def unshare(flags: int) -> None:
    """Move this process, or its next children, into new namespaces. Raise OSError."""
    _check(LIBC.unshare(flags))


def mount(source: str, target: str, kind: str | None, flags: int) -> None:
    """Mount a file system, or change how mounts propagate. Raise OSError."""
    encoded_kind = kind.encode() if kind is not None else None
    _check(LIBC.mount(source.encode(), target.encode(), encoded_kind, flags, None))


def process_use(process: int) -> ProcessUse | None:
    """Return what a process uses, or None if it is gone."""
    try:
        with open(f"/proc/{process}/stat", "rb") as stat:
            # The name, in parentheses, may contain anything.
            fields = stat.read().rpartition(b") ")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    ticks = sum(map(int, fields[11:15]))
    return ProcessUse(int(fields[17]), int(fields[21]) * PAGE_BYTES, ticks / TICKS_PER_SECOND)


def proportional_bytes(process: int) -> int | None:
    """Return the memory of a process, with its share of what it has in common with others.

    Return None if it is gone, or forbids to read this.
    """
    try:
        with open(f"/proc/{process}/smaps_rollup", "rb") as rollup:
            for line in rollup:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        return None
    return None


def children_of(process: int) -> list[int]:
    """Return the children of all threads of a process; [] if it is gone, or the kernel does not list them."""
    children: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{process}/task"):
            with open(f"/proc/{process}/task/{thread}/children", "rb") as listed:
                children += map(int, listed.read().split())
    except (FileNotFoundError, ProcessLookupError):
        pass
    return children


def _check(result: int) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
