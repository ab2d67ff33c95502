"""The processor time and the memory of a process and its descendants, from /proc."""

import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_UTIME, _CSTIME, _PARENT = 11, 14, 1  # positions after the name of the process in /proc/<pid>/stat


def cpu_seconds(root: int) -> float:
    """Return the user and system time of a process and its descendants.

    Those that have ended count, too, because the system adds their time to that of their parent.
    """
    stats = dict(_stats())
    children = defaultdict[int, list[int]](list)
    for pid, fields in stats.items():
        children[int(fields[_PARENT])].append(pid)
    ticks, rest = 0, [root]
    while rest:
        pid = rest.pop()
        ticks += sum(map(int, stats[pid][_UTIME : _CSTIME + 1])) if pid in stats else 0
        rest += children[pid]
    return ticks / _TICKS


def own_cpu_seconds(pid: int) -> float:
    """Return the user and system time of one process."""
    utime, stime = _fields(Path(f"/proc/{pid}/stat"))[_UTIME : _UTIME + 2]
    return (int(utime) + int(stime)) / _TICKS


def resident_bytes(pid: int) -> int:
    """Return the resident memory of one process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES


def _stats() -> Iterator[tuple[int, list[str]]]:
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                yield int(entry), _fields(Path(f"/proc/{entry}/stat"))
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended in between


def _fields(stat: Path) -> list[str]:
    """Return what follows the name, which may contain spaces and brackets."""
    return stat.read_text().rpartition(")")[2].split()
