"""What holds the processes of one run together, so that all of them can be counted and killed.

Containment             only what the keeper can find: the group of the command, and adopted orphans
├── ControlGroup        a cgroup v2, which a process cannot leave without permission to write to it
├── PidNamespace        a PID namespace, of which the keeper is the init process
└── OwnUser             a user id that no other process has
"""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hostsvc.process_harness.keeper.linux import children_of

KILLER_POLLS, KILLER_POLL_SECONDS = 500, 0.001
OWN_PROCESS = "0"  # in cgroup.procs: the process that writes


class Containment:
    """Finds descendants by their parents. A process that forks and exits fast enough can outrun this."""

    def enter(self) -> None:
        """Put this process, which is about to become the command, into the containment."""

    def processes(self) -> list[int]:
        """Return the ids of the processes of the run; dead ones may be among them."""
        found, pending = [], children_of(os.getpid())
        while pending:
            found += pending
            pending = [child for process in pending for child in children_of(process)]
        return found

    def kill(self, group: int | None) -> None:
        """Send SIGKILL to all processes of the run. `group` is that of the command, if it still has one."""
        children = children_of(os.getpid())
        if group is not None:
            _send(os.killpg, group)
        for child in children:
            _send(os.kill, child)

    def is_empty(self) -> bool:
        """Return whether no process of the run is left, once this keeper has no child."""
        return True

    def close(self) -> None:
        """Remove the containment, which is empty."""


class ControlGroup(Containment):
    """A control group of this run alone. Its processes belong to another user, who cannot write to it."""

    def __init__(self, path: str) -> None:
        self._path = path
        os.makedirs(path, exist_ok=True)

    def enter(self) -> None:
        _write(f"{self._path}/cgroup.procs", OWN_PROCESS)

    def processes(self) -> list[int]:
        return list(map(int, _read(f"{self._path}/cgroup.procs").split()))

    def kill(self, group: int | None) -> None:
        _write(f"{self._path}/cgroup.kill", "1")

    def is_empty(self) -> bool:
        return "populated 0" in _read(f"{self._path}/cgroup.events").splitlines()

    def close(self) -> None:
        os.rmdir(self._path)

    def limit(self, processes: int, memory_bytes: int) -> None:
        """Have the kernel apply the limits for which the group has a controller; 0 is none."""
        for name, value in (("pids.max", processes), ("memory.max", memory_bytes), ("memory.oom.group", 1)):
            if value and os.path.exists(f"{self._path}/{name}"):
                _write(f"{self._path}/{name}", str(value))

    def reached_limit(self) -> str | None:
        """Return the key of the limit that the kernel had to apply, or None."""
        for name, event, key in (("pids", "max", "processes"), ("memory", "oom_kill", "memory_mb")):
            with suppress(FileNotFoundError):  # no such controller
                events = dict(line.split() for line in _read(f"{self._path}/{name}.events").splitlines())
                if events.get(event, "0") != "0":
                    return key
        return None

    def cpu_seconds(self) -> float:
        """Return the CPU time of all processes that have ever been in the group."""
        fields = dict(line.split() for line in _read(f"{self._path}/cpu.stat").splitlines())
        return int(fields["usage_usec"]) / 1_000_000


class PidNamespace(Containment):
    """The PID namespace whose init process is this keeper. The kernel kills all of it with its init."""

    def processes(self) -> list[int]:
        own = os.getpid()
        return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != own]

    def kill(self, group: int | None) -> None:
        _send(os.kill, -1)


class OwnUser(Containment):
    """A user id of this run alone. A process of that user kills all others of it at the same time."""

    def __init__(self, user: int) -> None:
        self._user = user

    def kill(self, group: int | None) -> None:
        killer = os.fork()
        if killer == 0:
            try:
                os.setgroups([])
                os.setresgid(self._user, self._user, self._user)
                os.setresuid(self._user, self._user, self._user)
                _send(os.kill, -1)
            finally:
                os._exit(0)
        # A process of the run may kill or suspend it first: the caller repeats this until none is left.
        _wait_briefly(killer)

    def is_empty(self) -> bool:
        return self._user not in live_users()


def containment_of(spec: dict[str, Any]) -> Containment:
    """Return the containment that the specification of a process names."""
    kinds: dict[str, Callable[[], Containment]] = {
        "cgroup": lambda: ControlGroup(spec["cgroup"]),
        "namespace": PidNamespace,
        "user": lambda: OwnUser(spec["uid"]),
        "none": Containment,
    }
    return kinds[spec["containment"]]()


def live_users() -> set[int]:
    """Return the ids of all users that have a process, zombies aside: their parent may never reap them."""
    users: set[int] = set()
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(FileNotFoundError, ProcessLookupError):
                lines = _read(f"/proc/{name}/status").splitlines()
                fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
                if fields["State"][0] not in "ZX":
                    users.update(map(int, fields["Uid"].split()))
    return users


def _wait_briefly(child: int) -> None:
    """Wait for the end of a child that takes a moment; kill it if it does not end."""
    for _ in range(KILLER_POLLS):
        if os.waitpid(child, os.WNOHANG) != (0, 0):
            return
        time.sleep(KILLER_POLL_SECONDS)
    _send(os.kill, child)
    os.waitpid(child, 0)


def _send(send: Callable[[int, int], None], target: int) -> None:
    with suppress(ProcessLookupError):
        send(target, signal.SIGKILL)


def _read(path: str) -> str:
    with open(path) as file:
        return file.read()


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
