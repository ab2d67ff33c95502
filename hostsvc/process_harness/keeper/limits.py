"""The limits of one run (`[harness.limits]`): set for its processes, or checked while they run. 0 is none."""

import os
import resource
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

from hostsvc.process_harness.keeper.containment import Containment, ControlGroup
from hostsvc.process_harness.keeper.linux import process_use, proportional_bytes

MEGABYTE = 1_048_576
BLOCK_BYTES = 4096  # the least that a file of any size counts in the HOME
SECTOR_BYTES = 512  # the unit of st_blocks

CHECK_SECONDS = 0.5
HOME_SECONDS = 5.0
HOME_SHARE = 20  # a measurement of the HOME takes at most this part of the time
FILES_AT_ONCE = 1000

ONE_MORE = 1  # process may start than the limit says, so that the check sees that it is exceeded
KEEPER_PROCESSES = 2  # at most, which may run as the same user


class HomeRefused(Exception):
    """The HOME of a run cannot be measured; the message says why."""


def apply_to_process(limits: dict[str, int]) -> None:
    """Set the limits that the kernel checks for each process, or for its user, of this process."""
    for kind, limit in (
        (resource.RLIMIT_FSIZE, limits["file_mb"] * MEGABYTE),
        (resource.RLIMIT_NOFILE, limits["open_files"]),
    ):
        if limit:
            _lower(kind, limit)
    _lower(resource.RLIMIT_CORE, 0)


def apply_to_user(limits: dict[str, int]) -> None:
    """Limit the processes and threads of the user of this process, who has none but those of this run."""
    if limits["processes"]:
        _lower(resource.RLIMIT_NPROC, limits["processes"] + ONE_MORE + KEEPER_PROCESSES)


def _lower(kind: int, limit: int) -> None:
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(kind, (limit, limit))


class LimitWatch:
    """Checks what a run uses as a whole, and names the first limit that it exceeds."""

    def __init__(self, limits: dict[str, int], home: str, containment: Containment) -> None:
        self._limits = limits
        self._home = home
        self._containment = containment
        self._next_check = time.monotonic() + CHECK_SECONDS
        self._next_home = self._next_check
        self._walk: Iterator[int] | None = None
        self._walk_seconds = 0.0
        if isinstance(containment, ControlGroup):
            processes = limits["processes"] + ONE_MORE if limits["processes"] else 0
            containment.limit(processes, limits["memory_mb"] * MEGABYTE)

    def milliseconds(self) -> int | None:
        """Return the time until the next check, or None if there is nothing to check."""
        if self._walk is not None:
            return 0
        moments = []
        if any(self._limits[key] for key in ("processes", "memory_mb", "cpu_seconds")):
            moments.append(self._next_check)
        if self._limits["home_mb"]:
            moments.append(self._next_home)
        return max(0, int((min(moments) - time.monotonic()) * 1000) + 1) if moments else None

    def exceeded(self) -> str:
        """Return the limit that the run exceeds, and what it uses, or a blank. Check only what is due."""
        now = time.monotonic()
        found = ""
        if now >= self._next_check:
            self._next_check = now + CHECK_SECONDS
            found = self._exceeded_use()
        if not found and self._limits["home_mb"] and now >= self._next_home:
            found = self._exceeded_home()
        return found

    def exceeded_at_end(self) -> str:
        """Return the limit that the kernel has applied to a run that is over, or a blank."""
        key = self._reached_limit()
        return f"harness.limits.{key} ({self._limits[key]})" if key else ""

    def _reached_limit(self) -> str | None:
        return self._containment.reached_limit() if isinstance(self._containment, ControlGroup) else None

    def _exceeded_use(self) -> str:
        if key := self._reached_limit():
            return f"harness.limits.{key} ({self._limits[key]})"
        threads, resident, cpu = 0, 0, _cpu_seconds_of_reaped()
        processes = self._containment.processes()
        for use in filter(None, map(process_use, processes)):
            threads += use.threads
            resident += use.resident_bytes
            cpu += use.cpu_seconds
        if isinstance(self._containment, ControlGroup):
            cpu = self._containment.cpu_seconds()
        if resident > self._limits["memory_mb"] * MEGABYTE:  # which counts shared memory more than once
            resident = sum(map(_memory_of, processes))
        return (
            self._over("processes", threads, "processes and threads")
            or self._over("memory_mb", resident // MEGABYTE, "MB")
            or self._over("cpu_seconds", round(cpu, 1), "seconds")
        )

    def _exceeded_home(self) -> str:
        """Measure the next part of the HOME."""
        started = time.monotonic()
        if self._walk is None:
            self._walk, self._walk_seconds = home_bytes(self._home), 0.0
        used = None
        try:
            for used in islice(self._walk, FILES_AT_ONCE):
                if found := self._over("home_mb", -(-used // MEGABYTE), "MB"):
                    return found
        except HomeRefused as error:
            return f"harness.limits.home_mb: {error}"
        self._walk_seconds += time.monotonic() - started
        if used is None:
            self._walk = None
            self._next_home = time.monotonic() + max(HOME_SECONDS, HOME_SHARE * self._walk_seconds)
        return ""

    def _over(self, key: str, used: float, unit: str) -> str:
        limit = self._limits[key]
        return f"harness.limits.{key} ({used} {unit} used, {limit} allowed)" if 0 < limit < used else ""


def home_bytes(home: str) -> Iterator[int]:
    """Yield what the directory takes, again and again, each time with one more file. Raise HomeRefused.

    A file with several names counts in parts, so that it counts once if all of them are in the directory.
    """
    total, pending = 0, [home]
    while pending:
        directory = pending.pop()
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    with suppress(FileNotFoundError):
                        status = entry.stat(follow_symlinks=False)
                        size = max(status.st_blocks * SECTOR_BYTES, BLOCK_BYTES)
                        total += (
                            size // max(status.st_nlink, 1) if entry.is_file(follow_symlinks=False) else size
                        )
                        if entry.is_dir(follow_symlinks=False):
                            pending.append(entry.path)
                    yield total
        except (FileNotFoundError, NotADirectoryError):
            pass  # the run has changed it
        except OSError as error:
            raise HomeRefused(f"a directory in its HOME cannot be measured: {error.strerror}") from error


def _cpu_seconds_of_reaped() -> float:
    use = resource.getrusage(resource.RUSAGE_CHILDREN)
    return use.ru_utime + use.ru_stime


def _memory_of(process: int) -> int:
    """Return the memory of a process; all of what is resident if its share cannot be read."""
    share = proportional_bytes(process)
    if share is not None:
        return share
    use = process_use(process)
    return use.resident_bytes if use else 0
