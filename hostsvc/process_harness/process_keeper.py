"""The keeper of one run's process: starts the command, collects its output, and kills all its descendants.

    service ──► spec, a byte (SIGTERM), end of input (SIGKILL) ──► keeper ──► command ──► children
    service ◄───── exit code and the end of the output ─────────── keeper

It stands between the two so that the cleanup does not depend on the service: if the service is killed, the
keeper's input ends. It is a subreaper, so it adopts and finds descendants that leave the command's process
group; this needs Linux. It uses the standard library alone, so it starts in a few milliseconds.
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
IGNORED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # meant for the service
RESET_SIGNALS = (*IGNORED_SIGNALS, signal.SIGPIPE, signal.SIGCHLD)


def main() -> None:
    os.closerange(FIRST_OWN_DESCRIPTOR, os.sysconf("SC_OPEN_MAX"))
    for number in IGNORED_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    spec, is_terminated = _read_spec()
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    try:
        keeper = Keeper(json.loads(spec))
    except OSError as error:  # the disk is full, or the limit of processes is reached
        _report(None, str(error.strerror))
        return
    if is_terminated:
        keeper.terminate()
    keeper.run()


class Keeper:
    """Controls one command until none of its processes is left."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self._child_exits = _watch_child_exits()
        self._output, output = os.pipe()
        os.set_blocking(self._output, False)
        self._leader, self._error = _start(spec, output)
        os.close(output)
        self._output_end = b""
        self._status: int | None = None  # of the leader, from waitpid

    def run(self) -> None:
        poll = select.poll()
        for descriptor in (INPUT, self._output, self._child_exits):
            poll.register(descriptor, select.POLLIN)
        while not self._has_leader_exited():
            for descriptor, _ in poll.poll():
                if descriptor == self._output and not self._read_output():
                    poll.unregister(self._output)
                elif descriptor == INPUT:
                    self._handle_input()
                elif descriptor == self._child_exits:
                    os.read(self._child_exits, READ_BYTES)
                    self._reap_adopted()
        self._kill()
        while self._read_output():
            pass
        code = os.waitstatus_to_exitcode(self._status) if self._status is not None else None
        _report(code, self._error, self._output_end)

    def _has_leader_exited(self) -> bool:
        """Return whether the leader has exited. It stays a zombie, so that no other group gets its number."""
        if self._status is not None:
            return True
        return os.waitid(os.P_PID, self._leader, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def terminate(self) -> None:
        _send(os.killpg, self._leader, signal.SIGTERM)

    def _handle_input(self) -> None:
        if os.read(INPUT, READ_BYTES):
            self.terminate()
        else:
            self._kill()

    def _kill(self) -> None:
        """Kill the group and all adopted processes, until no child is left: each death may orphan others."""
        while True:
            children = _children()
            if self._status is None:
                _send(os.killpg, self._leader, signal.SIGKILL)
            for child in children:
                _send(os.kill, child, signal.SIGKILL)
            if not self._reap(os.WNOHANG if not children and self._status is not None else 0):
                return

    def _reap(self, options: int) -> bool:
        """Reap all dead children, the first one with these options. Return whether there was any.

        Listing the children again after each single one would take too long for thousands of them.
        """
        has_reaped = False
        while True:
            try:
                child, status = os.waitpid(-1, options)
            except ChildProcessError:
                return has_reaped
            if child == 0:
                return has_reaped
            if child == self._leader:
                self._status = status
            has_reaped, options = True, os.WNOHANG

    def _reap_adopted(self) -> None:
        for child in _children():
            if child != self._leader:
                os.waitpid(child, os.WNOHANG)

    def _read_output(self) -> bool:
        """Return whether there may be more output."""
        try:
            piece = os.read(self._output, READ_BYTES)
        except BlockingIOError:
            return False
        self._output_end = (self._output_end + piece)[-OUTPUT_BYTES:]
        return bool(piece)


def _report(code: int | None, error: str, output: bytes = b"") -> None:
    report = json.dumps({"code": code, "error": error}).encode() + b"\n" + output
    with suppress(BrokenPipeError):  # the service is gone
        while report:
            report = report[os.write(REPORT, report) :]


def _read_spec() -> tuple[bytes, bool]:
    """Return the first line of the input, and whether SIGTERM has been requested already."""
    received = b""
    while b"\n" not in received:
        piece = os.read(INPUT, READ_BYTES)
        if not piece:
            sys.exit()
        received += piece
    line, _, rest = received.partition(b"\n")
    return line, bool(rest)


def _watch_child_exits() -> int:
    """Return a descriptor that becomes readable when a child has exited."""
    child_exits, wakeup = os.pipe()
    os.set_blocking(wakeup, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
    return child_exits


def _start(spec: dict[str, Any], output: int) -> tuple[int, str]:
    """Start the command as the leader of a new group. Return its process id, and an error or a blank."""
    error_reader, error_writer = os.pipe()
    stdin = _unlinked_file(spec["home"], spec["input"].encode())
    keeper, leader = os.getpid(), os.fork()
    if leader == 0:
        _become_command(spec, stdin, output, error_writer, keeper)
    os.close(error_writer)
    os.close(stdin)
    with open(error_reader, "rb") as errors:
        return leader, errors.read().decode()


def _unlinked_file(directory: str, content: bytes) -> int:
    """Return a file without a name that contains the content: unlike a pipe it never blocks the writer."""
    path = os.path.join(directory, ".input")
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    os.unlink(path)
    while content:
        content = content[os.write(file, content) :]
    os.lseek(file, 0, os.SEEK_SET)
    return file


def _become_command(
    spec: dict[str, Any], stdin: int, output: int, error_writer: int, keeper: int
) -> NoReturn:
    """Drop privileges and execute the command in this process; write an error to `error_writer`."""
    try:
        os.setsid()
        for number in RESET_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        for source, target in ((stdin, 0), (output, 1), (output, 2)):
            os.dup2(source, target)
        os.get_exec_path()  # imports the modules that execvpe needs while this user can still read them
        if spec["uid"] is not None:
            os.setgroups(spec["groups"])
            os.setgid(spec["gid"])
            os.setuid(spec["uid"])
        os.chdir(spec["directory"])
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == keeper:  # else it died before PR_SET_PDEATHSIG took effect
            _execute(spec["command"], spec["environment"])
    except Exception as error:  # the outermost edge of this process
        os.write(error_writer, str(error.strerror if isinstance(error, OSError) else error).encode())
    finally:
        os._exit(127)


def _execute(command: list[str], environment: dict[str, str]) -> NoReturn:
    """Execute the command. Raise FileNotFoundError if it is not on the PATH, readable or not."""
    try:
        os.execvpe(command[0], command, environment)  # noqa: S606
    except PermissionError:
        places = [""] if "/" in command[0] else os.get_exec_path(environment)
        if any(os.path.exists(os.path.join(place, command[0])) for place in places):
            raise
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)) from None


def _send(send: Callable[[int, int], None], target: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # PermissionError: a set-user-ID program
        send(target, number)


def _children() -> list[int]:
    """Return the children of this process, adopted ones included; [] if the kernel does not list them."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", "rb") as listed:
            return [int(child) for child in listed.read().split()]
    except FileNotFoundError:
        return []


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    main()
