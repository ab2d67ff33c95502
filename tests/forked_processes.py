"""Processes of `hostsvc` forked by `tests.fork_server`, which start without importing anything."""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE, Popen
from tempfile import TemporaryFile
from types import TracebackType
from typing import IO

from tests.paths import ROOT

LINE_BYTES = 1 << 16


class ForkServer:
    """A fork server for one session of tests; a context manager that ends it."""

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
        read_end, write_end = os.pipe()
        connection = self._request(arguments, directory, environment, (write_end, log.fileno()))
        os.close(write_end)
        answers, writer = await asyncio.open_unix_connection(sock=connection)
        output = _Output()
        await asyncio.get_running_loop().connect_read_pipe(lambda: output, os.fdopen(read_end, "rb"))
        return ForkedProcess(int(await answers.readline()), output, answers, writer)

    def start(
        self,
        arguments: Sequence[str],
        directory: Path,
        environment: Mapping[str, str],
        log: IO[str] | None = None,
    ) -> "ForkedCommand":
        """Start `hostsvc` with these arguments for a test that is no coroutine. Its stderr is the log."""
        read_end, write_end = os.pipe()
        log = log or TemporaryFile("w+")  # noqa: SIM115 -- closed with the process
        connection = self._request(arguments, directory, environment, (write_end, log.fileno()))
        os.close(write_end)
        return ForkedCommand(connection, os.fdopen(read_end), log)

    def _request(
        self,
        arguments: Sequence[str],
        directory: Path,
        environment: Mapping[str, str],
        outputs: tuple[int, int],
    ) -> socket.socket:
        """Return the connection over which the server reports the process's id and then its exit code."""
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(self._path))
        request = json.dumps([arguments, str(directory), dict(environment)]).encode()
        socket.send_fds(connection, [request], outputs)
        return connection


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


class ForkedCommand:
    """What the tests use of `subprocess.Popen`, as a context manager that kills the process."""

    def __init__(self, connection: socket.socket, output: IO[str], log: IO[str]) -> None:
        self.stdout = output
        self.returncode: int | None = None
        self._log = log
        self._connection = connection
        self._answers = connection.makefile()
        self.pid = int(self._answers.readline())

    def __enter__(self) -> "ForkedCommand":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self.wait()
        for each in (self.stdout, self._log, self._answers, self._connection):
            each.close()

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self._connection.settimeout(timeout)
            self.returncode = int(self._answers.readline())
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Return the rest of its output, which a pipe must have room for, and its log."""
        self.wait(timeout)
        self._log.seek(0)
        return self.stdout.read(), self._log.read()

    def send_signal(self, signal_number: int) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal_number)
