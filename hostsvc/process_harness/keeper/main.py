"""The keeper of one run's process: starts the command, collects its output, and kills all its descendants.

    service ──► spec, a byte (SIGTERM), end of input (SIGKILL) ──► keeper ──► command ──► children
    service ◄───── exit code and the end of the output ─────────── keeper

It stands between the two so that the cleanup does not depend on the service: if the service is killed, the
keeper's input ends. All descendants are in a containment (`containment`), and the keeper ends when that is
empty, so that nothing of a run is left when its keeper is gone. It uses the standard library alone, so it
starts in a few milliseconds.
"""

import json
import os
import select
import signal
import sys
import time
from contextlib import suppress
from typing import Any

from hostsvc.process_harness.keeper.command import IGNORED_SIGNALS, start_command
from hostsvc.process_harness.keeper.containment import containment_of
from hostsvc.process_harness.keeper.limits import LimitWatch
from hostsvc.process_harness.keeper.linux import PR_SET_CHILD_SUBREAPER, PR_SET_DUMPABLE, prctl
from hostsvc.process_harness.keeper.namespaces import become_init

INPUT, REPORT = 0, 1
OUTPUT_BYTES = 65_536
READ_BYTES = 65_536
FIRST_OWN_DESCRIPTOR = 3
KILL_POLL_SECONDS = 0.01
KILL_AGAIN_MILLISECONDS = 100


def main() -> None:
    os.closerange(FIRST_OWN_DESCRIPTOR, os.sysconf("SC_OPEN_MAX"))
    for number in IGNORED_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    line, is_terminated = _read_spec()
    spec = json.loads(line)
    try:
        if spec["containment"] == "namespace":
            service = (spec["service_host"], spec["service_port"]) if spec["service_port"] else None
            become_init(REPORT, new_user=spec["new_user"], service=service)
        keeper = Keeper(spec)
    except OSError as error:  # the disk is full, or the limit of processes is reached
        _report({"code": None, "error": str(error.strerror or error)})
        return
    if is_terminated:
        keeper.terminate()
    keeper.run()
    os._exit(0)  # without the cleanup of the interpreter, which takes a few milliseconds


class Keeper:
    """Controls one command until none of its processes is left."""

    def __init__(self, spec: dict[str, Any]) -> None:
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        self._containment = containment_of(spec)
        self._child_exits = _watch_child_exits()
        self._output, output = os.pipe()
        os.set_blocking(self._output, False)
        self._watch = LimitWatch(spec["limits"], spec["home"], self._containment)
        prctl(PR_SET_DUMPABLE, 0)  # so that code of the same user can never trace it
        self._leader, self._error = start_command(spec, self._containment, output)
        os.close(output)
        self._output_end = b""
        self._status: int | None = None  # of the leader, from waitpid
        self._exceeded = ""  # the limit because of which the run ends

    def run(self) -> None:
        poll = select.poll()
        for descriptor in (INPUT, self._output, self._child_exits):
            poll.register(descriptor, select.POLLIN)
        while not self._has_leader_exited() and not self._exceeded:
            for descriptor, _ in poll.poll(self._watch.milliseconds()):
                if descriptor == self._output and not self._read_output():
                    poll.unregister(self._output)
                elif descriptor == INPUT:
                    self._handle_input()
                elif descriptor == self._child_exits:
                    os.read(self._child_exits, READ_BYTES)
                    self._reap_adopted()
            self._exceeded = self._watch.exceeded()
        self._kill()
        while self._read_output():
            pass
        code = os.waitstatus_to_exitcode(self._status) if self._status is not None else None
        exceeded = self._exceeded or self._watch.exceeded_at_end()
        self._containment.close()
        _report({"code": code, "error": self._error, "exceeded": exceeded}, self._output_end)

    def _has_leader_exited(self) -> bool:
        """Return whether the leader has exited. It stays a zombie, so that no other group gets its number."""
        if self._status is not None:
            return True
        return os.waitid(os.P_PID, self._leader, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def terminate(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._leader, signal.SIGTERM)

    def _handle_input(self) -> None:
        if os.read(INPUT, READ_BYTES):
            self.terminate()
        else:
            self._kill()

    def _kill(self) -> None:
        """Kill all processes until none is left: each death may orphan others, which then become children."""
        while True:
            self._containment.kill(self._leader if self._status is None else None)
            if not self._reap():
                if self._containment.is_empty():
                    return
                time.sleep(KILL_POLL_SECONDS)  # processes of an earlier keeper, which are not its children

    def _reap(self) -> bool:
        """Wait a moment for the death of a child and reap all dead ones. Return whether there was any child.

        Killing the others again after each single one would take too long for thousands of them. Waiting
        without a limit could last forever: a process may have stopped the one that should have killed it.
        """
        has_reaped = has_waited = False
        while True:
            try:
                child, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return has_reaped
            if child == self._leader:
                self._status = status
            if child:
                has_reaped = True
            elif has_reaped or has_waited:
                return True
            else:
                has_waited = True
                self._wait_for_child_exit()

    def _wait_for_child_exit(self) -> None:
        exits = select.poll()
        exits.register(self._child_exits, select.POLLIN)
        if exits.poll(KILL_AGAIN_MILLISECONDS):
            os.read(self._child_exits, READ_BYTES)

    def _reap_adopted(self) -> None:
        with suppress(ChildProcessError):  # the end of the input has had all of them killed
            while (dead := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
                if dead.si_pid == self._leader:
                    return
                os.waitpid(dead.si_pid, 0)

    def _read_output(self) -> bool:
        """Return whether there may be more output."""
        try:
            piece = os.read(self._output, READ_BYTES)
        except BlockingIOError:
            return False
        self._output_end = (self._output_end + piece)[-OUTPUT_BYTES:]
        return bool(piece)


def _report(end: dict[str, Any], output: bytes = b"") -> None:
    report = json.dumps(end).encode() + b"\n" + output
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
