"""A server that has imported the service once, and forks a process of it for each test that starts one.

The imports are most of what a start costs. A forked process is what `python -W error -m hostsvc` would be in
all that a test can see, but for its command line and the cost of passwords. `tests.forked_processes` runs it
with a listening socket.
"""

import gc
import json
import os
import selectors
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress

import hostsvc.llm.chat_models  # noqa: F401 -- imported by the service once it has a model
from hostsvc.cli.commands import main
from tests.cheap_passwords import CHEAP
from web.console.assets import read_console
from web.credentials import passwords

MAX_REQUEST_BYTES = 1 << 16


class Server:
    """Each process is reported over the connection that asked for it."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._selector.register(sys.stdin, selectors.EVENT_READ)
        self._processes: dict[int, tuple[int, socket.socket]] = {}  # by pidfd

    def run(self) -> list[str] | None:
        """Fork until stdin ends, and kill what still runs then. In a forked process, return its arguments."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is sys.stdin:  # the tests are over, or were killed
                    for pidfd in self._processes:
                        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                    self._close()
                    return None
                if key.fileobj is not self._listener:
                    self._report_end(key.fd)
                elif arguments := self._fork():
                    return arguments

    def _fork(self) -> list[str] | None:
        connection, _ = self._listener.accept()
        request, descriptors, _, _ = socket.recv_fds(connection, MAX_REQUEST_BYTES, 2)
        process_id = os.fork()
        if not process_id:
            connection.close()
            self._close()
            return _become(request, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        pidfd = os.pidfd_open(process_id)
        self._processes[pidfd] = process_id, connection
        self._selector.register(pidfd, selectors.EVENT_READ)
        connection.sendall(b"%d\n" % process_id)
        return None

    def _report_end(self, pidfd: int) -> None:
        self._selector.unregister(pidfd)
        os.close(pidfd)
        process_id, connection = self._processes.pop(pidfd)
        _, status = os.waitpid(process_id, 0)
        with connection, suppress(BrokenPipeError):
            connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))

    def _close(self) -> None:
        self._selector.close()
        for pidfd, (_, connection) in self._processes.items():
            os.close(pidfd)
            connection.close()


def _become(request: bytes, descriptors: Sequence[int]) -> list[str]:
    """Take on the directory, the environment and the standard streams of the process that is asked for."""
    arguments, directory, environment = json.loads(request)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in zip((nothing, *descriptors), (0, 1, 2), strict=True):
        os.dup2(source, target)
        os.close(source)
    return [str(argument) for argument in arguments]


if __name__ == "__main__":
    vars(passwords).update(CHEAP)
    read_console().compress()  # once, for all services that a browser visits
    gc.freeze()  # the memory that forked processes share is not copied by their collections
    with socket.socket(fileno=int(sys.argv[1])) as listening:
        to_run = Server(listening).run()
    if to_run is not None:
        main(to_run, prog_name="hostsvc")
