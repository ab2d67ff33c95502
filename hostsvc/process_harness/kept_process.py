"""A process of somebody else's making, in the hands of a keeper of its own (`process_keeper`)."""

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import cast

import orjson
import structlog

from hostsvc.process_harness import process_keeper

log = structlog.get_logger()

KEEPER = (sys.executable, "-I", "-S", process_keeper.__file__)
LAST_LINE_CHARACTERS = 300
KILL_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Order:
    """What is to run: where, with what on its input, and as whom (None: as the service itself).

    `home` is a directory of the process's own.
    """

    command: Sequence[str]
    directory: str
    home: str
    environment: Mapping[str, str] = field(repr=False)
    input: str = field(repr=False)
    user: int | None = None
    group: int | None = None
    groups: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class ProcessEnd:
    """How a process ended: `code` is its exit code, or minus the signal that ended it.

    `error` says why it did not even start. `output` is the last of what it wrote. Without a code its keeper
    ended early, and the command with it.
    """

    code: int | None
    error: str = ""
    output: str = field(default="", repr=False)

    def without(self, secret: str, instead: str) -> "ProcessEnd":
        """The same, should the process have written a secret out."""
        return replace(self, output=self.output.replace(secret, instead))

    def describe(self) -> str:
        """In a few words, with the last line it wrote; blank if all went well."""
        if self.error:
            return f"the command could not be started: {self.error}"
        if self.code is None:
            return "its keeper ended, and the command with it"
        if self.code == 0:
            return ""
        how = f"exit code {self.code}" if self.code > 0 else f"killed by {_signal_name(-self.code)}"
        last = _last_line(self.output)
        return f"{how}: {last}" if last else how


class KeptProcess:
    """One process, by way of its keeper; `kept_process` starts it."""

    def __init__(self, keeper: Process, order: bytes) -> None:
        self.over = asyncio.Event()  # set when nothing of it is left
        self._keeper = keeper
        self._stdin = cast(asyncio.StreamWriter, keeper.stdin)
        self._stdin.write(order + b"\n")
        self._end = asyncio.ensure_future(self._wait())
        self._end.add_done_callback(lambda _: self.over.set())

    def __repr__(self) -> str:
        return f"<KeptProcess of keeper {self._keeper.pid}: {'over' if self.over.is_set() else 'going on'}>"

    def ask_to_end(self) -> None:
        """SIGTERM to its group."""
        if not self.over.is_set():
            self._stdin.write(b".")

    async def kill(self) -> ProcessEnd:
        """SIGKILL to all that is left of it; how it ended, once it has gone."""
        self._stdin.close()
        _, late = await asyncio.wait({self._end}, timeout=KILL_SECONDS)
        if late:
            log.error("the keeper of a process does not end", keeper=self._keeper.pid)
            self._keeper.kill()
        return await asyncio.shield(self._end)

    async def _wait(self) -> ProcessEnd:
        report = await cast(asyncio.StreamReader, self._keeper.stdout).read()
        await self._keeper.wait()
        head, _, output = report.partition(b"\n")
        told = orjson.loads(head) if head else {"code": None}
        return ProcessEnd(**told, output=output.decode(errors="replace"))


@asynccontextmanager
async def kept_process(order: Order) -> AsyncIterator[KeptProcess]:
    """A process that has just been started; on leaving, nothing of it is left."""
    keeper = await asyncio.create_subprocess_exec(
        *KEEPER, stdin=PIPE, stdout=PIPE, env={}, cwd="/", start_new_session=True
    )
    process = KeptProcess(keeper, orjson.dumps(asdict(order)))
    try:
        yield process
    finally:
        await process.kill()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # most of the real-time signals have none
        return f"signal {number}"


def _last_line(output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip()]
    printable = "".join(filter(str.isprintable, lines[-1])) if lines else ""
    return printable.strip()[:LAST_LINE_CHARACTERS]
