"""Keeps the process of one run: starts it, holds its output, and sees to it that nothing of it is left.

    service ──► an order, a byte (end, please), the end of input (be gone) ──► keeper ──► command ──► children
    service ◄──────────── how it ended, and what it wrote last ───────────── keeper

It stands between the two so that the end does not depend on the service: when that is killed, the input ends.
It adopts whoever leaves the command's process group, and so finds them as well; for that it needs Linux. A
program of its own on the standard library alone, so that it starts in a few milliseconds.
"""

import ctypes
import errno
import json
import os
import select
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

INPUT, REPORT = 0, 1
OUTPUT_BYTES = 65_536
READ_BYTES = 65_536
FIRST_OWN_DESCRIPTOR = 3

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
MEANT_FOR_THE_SERVICE = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
RESTORED = (*MEANT_FOR_THE_SERVICE, signal.SIGPIPE, signal.SIGCHLD)


def main() -> None:
    os.closerange(FIRST_OWN_DESCRIPTOR, os.sysconf("SC_OPEN_MAX"))
    for number in MEANT_FOR_THE_SERVICE:
        signal.signal(number, signal.SIG_IGN)
    order, is_to_end = _read_order()
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    try:
        keeper = Keeper(json.loads(order))
    except OSError as error:  # the disk is full, or there are processes enough
        _report(None, str(error.strerror))
        return
    if is_to_end:
        keeper.ask_to_end()
    keeper.keep()


class Keeper:
    """Watches over one command until nothing of it is left."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._deaths = _watch_children()
        self._output, output = os.pipe()
        os.set_blocking(self._output, False)
        self._leader, self._error = _start(order, output)
        os.close(output)
        self._written = b""
        self._status: int | None = None  # of the leader, as waitpid tells it

    def keep(self) -> None:
        poll = select.poll()
        for descriptor in (INPUT, self._output, self._deaths):
            poll.register(descriptor, select.POLLIN)
        while not self._is_over():
            for descriptor, _ in poll.poll():
                if descriptor == self._output and not self._take_output():
                    poll.unregister(self._output)
                elif descriptor == INPUT:
                    self._obey()
                elif descriptor == self._deaths:
                    os.read(self._deaths, READ_BYTES)
                    self._bury_the_adopted()
        self._kill()
        while self._take_output():
            pass
        code = os.waitstatus_to_exitcode(self._status) if self._status is not None else None
        _report(code, self._error, self._written)

    def _is_over(self) -> bool:
        """Whether the leader has ended. It stays a zombie, so that its group keeps its number."""
        if self._status is not None:
            return True
        return os.waitid(os.P_PID, self._leader, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def ask_to_end(self) -> None:
        _send(os.killpg, self._leader, signal.SIGTERM)

    def _obey(self) -> None:
        if os.read(INPUT, READ_BYTES):
            self.ask_to_end()
        else:
            self._kill()

    def _kill(self) -> None:
        """End all at once: the group, and whoever left it. The children of each one killed come next."""
        while True:
            children = _children()
            if self._status is None:
                _send(os.killpg, self._leader, signal.SIGKILL)
            for child in children:
                _send(os.kill, child, signal.SIGKILL)
            if not self._bury(os.WNOHANG if not children and self._status is not None else 0):
                return

    def _bury(self, options: int) -> bool:
        """Take all that have died, the first as the options say; whether there was any.

        One at a time would cost a look at all that are left for each: too long for a crowd.
        """
        is_any = False
        while True:
            try:
                child, status = os.waitpid(-1, options)
            except ChildProcessError:
                return is_any
            if child == 0:
                return is_any
            if child == self._leader:
                self._status = status
            is_any, options = True, os.WNOHANG

    def _bury_the_adopted(self) -> None:
        for child in _children():
            if child != self._leader:
                os.waitpid(child, os.WNOHANG)

    def _take_output(self) -> bool:
        """Whether there may be more."""
        try:
            piece = os.read(self._output, READ_BYTES)
        except BlockingIOError:
            return False
        self._written = (self._written + piece)[-OUTPUT_BYTES:]
        return bool(piece)


def _report(code: int | None, error: str, written: bytes = b"") -> None:
    report = json.dumps({"code": code, "error": error}).encode() + b"\n" + written
    with suppress(BrokenPipeError):  # the service is gone
        while report:
            report = report[os.write(REPORT, report) :]


def _read_order() -> tuple[bytes, bool]:
    """The line that the input begins with, and whether the command is to end already."""
    order = b""
    while b"\n" not in order:
        piece = os.read(INPUT, READ_BYTES)
        if not piece:
            sys.exit()
        order += piece
    line, _, rest = order.partition(b"\n")
    return line, bool(rest)


def _watch_children() -> int:
    """A descriptor that can be read when a child has died."""
    deaths, told = os.pipe()
    os.set_blocking(told, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    return deaths


def _start(order: dict[str, Any], output: int) -> tuple[int, str]:
    """The process id of the command, which leads a group of its own, and why it did not start, if so."""
    faults, fault = os.pipe()
    given = _file_of(order["home"], order["input"].encode())
    keeper, leader = os.getpid(), os.fork()
    if leader == 0:
        _become(order, given, output, fault, keeper)
    os.close(fault)
    os.close(given)
    with open(faults, "rb") as told:
        return leader, told.read().decode()


def _file_of(directory: str, content: bytes) -> int:
    """A file without a name that holds the content: unlike a pipe it never has to be waited for."""
    path = os.path.join(directory, ".input")
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    os.unlink(path)
    while content:
        content = content[os.write(file, content) :]
    os.lseek(file, 0, os.SEEK_SET)
    return file


def _become(order: dict[str, Any], given: int, output: int, fault: int, keeper: int) -> NoReturn:
    """Turn this process into the command; whatever prevents it goes to `fault`."""
    try:
        os.setsid()
        for number in RESTORED:
            signal.signal(number, signal.SIG_DFL)
        for source, target in ((given, 0), (output, 1), (output, 2)):
            os.dup2(source, target)
        os.get_exec_path()  # imports what execvpe will need while this user can still read it
        if order["user"] is not None:
            os.setgroups(order["groups"])
            os.setgid(order["group"])
            os.setuid(order["user"])
        os.chdir(order["directory"])
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == keeper:
            _execute(order["command"], order["environment"])
    except Exception as error:  # the outermost edge of this process
        os.write(fault, str(error.strerror if isinstance(error, OSError) else error).encode())
    finally:
        os._exit(127)


def _execute(command: list[str], environment: dict[str, str]) -> NoReturn:
    """A command that is nowhere on the PATH is missing, even if some of that is closed to this user."""
    try:
        os.execvpe(command[0], command, environment)  # noqa: S606
    except PermissionError:
        places = [""] if "/" in command[0] else os.get_exec_path(environment)
        if any(os.path.exists(os.path.join(place, command[0])) for place in places):
            raise
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)) from None


def _send(send: Callable[[int, int], None], target: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # a set-user-ID program is out of reach for us
        send(target, number)


def _children() -> list[int]:
    """The processes whose parent this one is, adopted ones too; none if the kernel does not list them."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", "rb") as listed:
            return [int(child) for child in listed.read().split()]
    except FileNotFoundError:
        return []


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    main()
