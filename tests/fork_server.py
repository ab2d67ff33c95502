"""A server that has imported the service once, and forks a process of it for each test that starts one.

The imports are most of what a start costs. A forked process is what `python -W error -m hostsvc` would be in
all that a test can see but its command line. Run as `python -m tests.fork_server` with a listening socket.
"""

import asyncio
import gc
import json
import os
import selectors
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE, Popen
from types import TracebackType
from typing import IO

import hostsvc.llm.chat_models  # noqa: F401 -- imported by the service once it has a model
from hostsvc.cli.commands import main
from tests.paths import ROOT

MAX_REQUEST_BYTES = 1 << 16
LINE_BYTES = 1 << 16


class ForkServer:
    """The client's side, for one session of tests; a context manager that ends the server."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "fork-server"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(self._path))
            listener.listen()
            self._server = Popen(
                [sys.executable, "-W", "error", "-m", "tests.fork_server", str(listener.fileno())],
                cwd=ROOT,
                stdin=PIPE,  # its end tells the server to end
                pass_fds=[listener.fileno()],
            )

    def __enter__(self) -> "ForkServer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait()

    async def launch(
        self, arguments: Sequence[str], directory: Path, environment: Mapping[str, str], log: IO[bytes]
    ) -> "ForkedProcess":
        """Start `hostsvc` with these arguments; its stdout can be read, its stderr is the log."""
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(self._path))
        read_end, write_end = os.pipe()
        request = json.dumps([arguments, str(directory), dict(environment)]).encode()
        socket.send_fds(connection, [request], [write_end, log.fileno()])
        os.close(write_end)
        answers, writer = await asyncio.open_unix_connection(sock=connection)
        output = _Output()
        await asyncio.get_running_loop().connect_read_pipe(lambda: output, os.fdopen(read_end, "rb"))
        return ForkedProcess(int(await answers.readline()), output, answers, writer)


class _Output(asyncio.StreamReaderProtocol):
    """What a process prints."""

    def __init__(self) -> None:
        self.reader = asyncio.StreamReader(LINE_BYTES)
        super().__init__(self.reader)
        self.is_lost = asyncio.Event()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.is_lost.set()


class ForkedProcess:
    """What the tests use of `asyncio.subprocess.Process`."""

    def __init__(
        self, pid: int, output: _Output, answers: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.pid = pid
        self.stdout = output.reader
        self.returncode: int | None = None
        self._end = asyncio.create_task(self._watch(output, answers, writer))

    def send_signal(self, signal_number: int) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal_number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    async def wait(self) -> int:
        return await asyncio.shield(self._end)

    async def _watch(
        self, output: _Output, answers: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> int:
        self.returncode = int(await answers.readline())
        writer.close()
        await writer.wait_closed()
        await output.is_lost.wait()
        return self.returncode


class Server:
    """The server's side. Each process is reported over the connection that asked for it."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._selector.register(sys.stdin, selectors.EVENT_READ)
        self._processes: dict[int, tuple[int, socket.socket]] = {}  # by pidfd

    def run(self) -> list[str] | None:
        """Fork until stdin ends. Return None then; in a forked process, return its arguments."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is sys.stdin:
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
    gc.freeze()  # the memory that forked processes share is not copied by their collections
    with socket.socket(fileno=int(sys.argv[1])) as listening:
        to_run = Server(listening).run()
    if to_run is not None:
        main(to_run, prog_name="hostsvc")
