"""A process of the agents' code, controlled through a keeper process of its own (`process_keeper`)."""

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from typing import cast

import orjson
import structlog

from hostsvc.process_harness import process_keeper

log = structlog.get_logger()

KEEPER = (sys.executable, "-I", "-S", process_keeper.__file__)
LAST_LINE_CHARACTERS = 300
KILL_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """The command to run, its directories, environment and input, and the user to run it as.

    `home` is an empty directory for this process alone. Without `uid` it runs as the user of the service.
    """

    command: Sequence[str]
    directory: str
    home: str
    environment: Mapping[str, str] = field(repr=False)
    input: str = field(repr=False)
    uid: int | None = None
    gid: int | None = None
    groups: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class ProcessEnd:
    """The end of a process: `code` is its exit code, or minus the signal that killed it.

    `error` says why it did not start. `output` is the end of what it wrote. `code` is None if the keeper
    ended too early to report one, in which case the kernel killed the command with it.
    """

    code: int | None
    error: str = ""
    output: str = field(default="", repr=False)

    def describe(self) -> str:
        """Describe a failure with the last line of output; return a blank for exit code 0."""
        if self.error:
            return f"the command could not be started: {self.error}"
        if self.code is None:
            return "its keeper ended, and the command with it"
        if self.code == 0:
            return ""
        cause = f"exit code {self.code}" if self.code > 0 else f"killed by {_signal_name(-self.code)}"
        last_line = _last_line(self.output)
        return f"{cause}: {last_line}" if last_line else cause


class KeptProcess:
    """One process with its descendants; `open_kept_process` starts it."""

    def __init__(self, keeper: Process, spec: bytes) -> None:
        self.ended = asyncio.Event()  # set when no process of it is left
        self._keeper = keeper
        self._stdin = cast(asyncio.StreamWriter, keeper.stdin)
        self._stdin.write(spec + b"\n")
        self._end = asyncio.ensure_future(self._wait())
        self._end.add_done_callback(lambda _: self.ended.set())

    def terminate(self) -> None:
        """Send SIGTERM to its process group."""
        if not self.ended.is_set():
            self._stdin.write(b".")

    async def kill(self) -> ProcessEnd:
        """Send SIGKILL to all that is left of it, wait until it is gone, and return its end."""
        self._stdin.close()
        _, pending = await asyncio.wait({self._end}, timeout=KILL_SECONDS)
        if pending:
            log.error("a process keeper did not end in time and is killed", keeper=self._keeper.pid)
            self._keeper.kill()
        return await asyncio.shield(self._end)

    async def _wait(self) -> ProcessEnd:
        report = await cast(asyncio.StreamReader, self._keeper.stdout).read()
        await self._keeper.wait()
        head, _, output = report.partition(b"\n")
        fields = orjson.loads(head) if head else {"code": None}
        return ProcessEnd(**fields, output=output.decode(errors="replace"))


@asynccontextmanager
async def open_kept_process(spec: ProcessSpec) -> AsyncIterator[KeptProcess]:
    """Start a process; on exit, kill what is left of it."""
    keeper = await asyncio.create_subprocess_exec(
        *KEEPER, stdin=PIPE, stdout=PIPE, env={}, cwd="/", start_new_session=True
    )
    process = KeptProcess(keeper, orjson.dumps(asdict(spec)))
    try:
        yield process
    finally:
        await process.kill()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # most real-time signals have no name
        return f"signal {number}"


def _last_line(output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip()]
    printable = "".join(filter(str.isprintable, lines[-1])) if lines else ""
    return printable.strip()[:LAST_LINE_CHARACTERS]
