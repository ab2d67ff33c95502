"""New namespaces for one run: it sees no other process, and all of it dies with its init process."""

import json
import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from hostsvc.process_harness.keeper import linux

if TYPE_CHECKING:
    from hostsvc.process_harness.keeper.relay import Relay

READY = b"."
NAMESPACES = linux.CLONE_NEWPID | linux.CLONE_NEWNS | linux.CLONE_NEWIPC
PROC_OPTIONS = linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC


def become_init(report: int, *, new_user: bool, service: tuple[str, int] | None) -> None:
    """Return in the init process of new namespaces. The calling process waits for its end, and exits.

    First write the process id of the init process to `report`, for somebody who outlives the calling process.
    With `new_user` also create a user namespace in which every id means what it means outside. A user without
    privileges needs that, and its limit of processes counts for this run alone. With an address of the
    `service` also create a network in which the loopback address leads to it, and nothing else anywhere.
    Raise OSError if the machine does not allow this.
    """
    if new_user:
        _unshare_with_user()
    else:
        linux.unshare(NAMESPACES)
    relay = _open_relay(service) if service is not None else None
    lifeline, launcher_end = os.pipe()
    init = os.fork()
    if init:
        os.write(report, json.dumps({"init": init}).encode() + b"\n")
        _wait_for_init(init, launcher_end, relay)
    os.close(launcher_end)
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.read(lifeline, 1) != READY:  # the launcher ended before the line above took effect
        os._exit(1)
    os.close(lifeline)
    linux.mount("none", "/", None, linux.MS_REC | linux.MS_PRIVATE)
    linux.mount("proc", "/proc", "proc", PROC_OPTIONS)
    if relay is not None:
        relay.enter_network()


def _open_relay(service: tuple[str, int]) -> "Relay":
    # Only here: the import of sockets would make the start of each run take a tenth longer.
    from hostsvc.process_harness.keeper.relay import Relay

    return Relay(service)


def _wait_for_init(init: int, launcher_end: int, relay: "Relay | None") -> NoReturn:
    with suppress(BrokenPipeError):  # the init process has ended already
        os.write(launcher_end, READY)
    if relay is not None:
        relay.pass_on_until_exit(init)
    os.waitpid(init, 0)
    os._exit(0)


def _unshare_with_user() -> None:
    user, group = os.geteuid(), os.getegid()
    if user != 0:
        linux.unshare(NAMESPACES | linux.CLONE_NEWUSER)
        for name, content in (
            ("uid_map", f"{user} {user} 1"),
            ("setgroups", "deny"),
            ("gid_map", f"{group} {group} 1"),
        ):
            _write_map(os.getpid(), name, content)
        return
    # Only a process outside the new namespace may map more than one id.
    maps = {name: _identity(name) for name in ("uid_map", "gid_map")}
    process, (unshared, parent_end) = os.getpid(), os.pipe()
    mapper = os.fork()
    if mapper == 0:
        _write_maps_once(unshared, parent_end, process, maps)
    os.close(unshared)
    try:
        linux.unshare(NAMESPACES | linux.CLONE_NEWUSER)
        os.write(parent_end, READY)
    finally:
        os.close(parent_end)
        _, status = os.waitpid(mapper, 0)
    if status:
        raise PermissionError("the ids of the new user namespace cannot be mapped")


def _write_maps_once(unshared: int, parent_end: int, process: int, maps: dict[str, str]) -> None:
    """Write the maps of the process when it is in its new namespace, and exit."""
    status = 1
    try:
        os.close(parent_end)
        if os.read(unshared, 1) == READY:
            for name, content in maps.items():
                _write_map(process, name, content)
            status = 0
    finally:
        os._exit(status)


def _identity(name: str) -> str:
    """Return a map of all ids of this user namespace to themselves."""
    with open(f"/proc/self/{name}") as ranges:
        fields = [line.split() for line in ranges]
    return "".join(f"{first} {first} {count}\n" for first, _, count in fields)


def _write_map(process: int, name: str, content: str) -> None:
    file = os.open(f"/proc/{process}/{name}", os.O_WRONLY)
    try:
        os.write(file, content.encode())  # in one write, as the kernel demands
    finally:
        os.close(file)
