"""A process of the agents' own code, controlled through a keeper process of its own (`keeper`)."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import orjson
import structlog

from hostsvc.process_harness.keeper import main as keeper_main
from hostsvc.process_harness.settings import ContainmentKind, RunLimits

log = structlog.get_logger()

PACKAGES = Path(keeper_main.__file__).parents[3]
MAIN = f"import sys; sys.path.append(sys.argv[1]); from {keeper_main.__name__} import main; main()"
KEEPER = (sys.executable, "-I", "-S", "-c", MAIN, str(PACKAGES))
LAST_LINE_CHARACTERS = 300
KILL_SECONDS = 5.0
CLEAN_PAUSE_SECONDS = 1.0
CLEANED_BY_THE_KERNEL = ("namespace", "none")

# What a program says when it meets a limit that the kernel only reports to it.
HINTS = {
    "Too many open files": "open_files",
    "EMFILE": "open_files",
    "File too large": "file_mb",
    "EFBIG": "file_mb",
    "Resource temporarily unavailable": "processes",
    "can't start new thread": "processes",
    "Cannot fork": "processes",
}


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """The command to run, its directories, environment and input, its user, and what contains and limits it.

    `home` is an empty directory for this process alone. Without `uid` it runs as the user of the service.
    `cgroup` is the path of a control group of its own, `new_user` adds a user namespace, and `has_own_user`
    says that the kernel counts the processes of its user for this run alone. With `service_port` the process
    reaches nothing but that port of the service, under the loopback address. An empty command ends at once:
    it shows whether the containment is possible, and kills what an earlier keeper left in it.
    """

    command: Sequence[str]
    directory: str
    home: str
    environment: Mapping[str, str] = field(repr=False)
    input: str = field(repr=False)
    uid: int | None = None
    gid: int | None = None
    groups: Sequence[int] = ()
    containment: ContainmentKind = "none"
    cgroup: str = ""
    new_user: bool = False
    has_own_user: bool = False
    service_host: str = ""
    service_port: int = 0
    limits: RunLimits = field(default_factory=RunLimits)


@dataclass(frozen=True, slots=True)
class ProcessEnd:
    """The end of a process: `code` is its exit code, or minus the signal that killed it.

    `error` says why it did not start, `exceeded` names a limit that it exceeded, and `output` is the end of
    what it wrote. `code` is None if the keeper was killed; then the command was killed with it.
    """

    code: int | None
    error: str = ""
    exceeded: str = ""
    output: str = field(default="", repr=False)

    def describe(self, limits: RunLimits) -> str:
        """Describe a failure with the last line of output; return a blank for exit code 0."""
        if self.error:
            return f"the command could not be started: {self.error}"
        if self.exceeded:
            return f"killed because it exceeded {self.exceeded}"
        if self.code is None:
            return "its keeper ended, and the command with it"
        if self.code == 0:
            return ""
        cause = f"exit code {self.code}" if self.code > 0 else f"killed by {_signal_name(-self.code)}"
        last_line = _last_line(self.output)
        return (f"{cause}: {last_line}" if last_line else cause) + self._hint(last_line, limits)

    def _hint(self, last_line: str, limits: RunLimits) -> str:
        key = next((key for words, key in HINTS.items() if words in last_line), "")
        key = "file_mb" if self.code == -signal.SIGXFSZ else key
        limit = getattr(limits, key) if key else 0
        return f" (harness.limits.{key} is {limit})" if limit else ""


class KeptProcess:
    """One process with its descendants; `open_kept_process` starts it."""

    def __init__(self, keeper: Process, spec: ProcessSpec) -> None:
        self.ended = asyncio.Event()  # set when no process of it is left
        self.is_stuck = False  # it was killed, but the kernel does not let go of all its processes
        self._spec = spec
        self._keeper = keeper
        self._stdin = cast(asyncio.StreamWriter, keeper.stdin)
        self._stdin.write(orjson.dumps(asdict(spec)) + b"\n")
        self._end = asyncio.ensure_future(self._wait())
        self._end.add_done_callback(lambda _: self.ended.set())

    def terminate(self) -> None:
        """Send SIGTERM to its process group."""
        if not self.ended.is_set():
            self._stdin.write(b".")

    async def kill(self) -> ProcessEnd:
        """Send SIGKILL to all that is left of it, wait until it is gone, and return its end.

        This takes as long as the kernel needs, which may be for ever if a device or a file server hangs.
        """
        self._stdin.close()
        _, pending = await asyncio.wait({self._end}, timeout=KILL_SECONDS)
        if pending:
            self._urge_keeper()
            _, pending = await asyncio.wait({self._end}, timeout=KILL_SECONDS)
        if pending and not self.is_stuck:
            self.is_stuck = True
            log.error(
                "processes of a run cannot be killed; its run slot is kept until they are gone",
                keeper=self._keeper.pid,
            )
        return await asyncio.shield(self._end)

    def _urge_keeper(self) -> None:
        """Continue a keeper that was suspended. Kill it if the kernel then kills what it kept."""
        log.error("a process keeper did not end in time", keeper=self._keeper.pid)
        with suppress(ProcessLookupError):
            self._keeper.send_signal(signal.SIGCONT)
            if self._spec.containment == "namespace":
                self._keeper.kill()

    async def _wait(self) -> ProcessEnd:
        stdout = cast(asyncio.StreamReader, self._keeper.stdout)
        head, init = _fields(await stdout.readline()), None
        if "init" in head:
            init = _open_process(head["init"])
            head = _fields(await stdout.readline())
        output = await stdout.read()
        await self._keeper.wait()
        if init is not None:
            await _wait_for_process(init)
        if head:
            return ProcessEnd(**head, output=output.decode(errors="replace"))
        if self._spec.command and self._spec.containment not in CLEANED_BY_THE_KERNEL:
            await clean(self._spec)
        return ProcessEnd(None)


@asynccontextmanager
async def open_kept_process(spec: ProcessSpec) -> AsyncIterator[KeptProcess]:
    """Start a process; on exit, kill what is left of it."""
    keeper = await asyncio.create_subprocess_exec(
        *KEEPER, stdin=PIPE, stdout=PIPE, env={}, cwd="/", start_new_session=True
    )
    process = KeptProcess(keeper, spec)
    try:
        yield process
    finally:
        await process.kill()


async def enter(spec: ProcessSpec) -> ProcessEnd:
    """Enter the containment of a process without executing anything, and leave nothing in it."""
    async with open_kept_process(replace(spec, command=(), input="", limits=RunLimits())) as process:
        await process.ended.wait()
        return await process.kill()


async def clean(spec: ProcessSpec) -> None:
    """Kill what an earlier keeper left in the containment of a process. Return when nothing is left."""
    while (end := await enter(spec)).code != 0:
        log.error(
            "the processes that a keeper left could not be killed yet", reason=end.describe(spec.limits)
        )
        await asyncio.sleep(CLEAN_PAUSE_SECONDS)


def _fields(line: bytes) -> dict[str, Any]:
    """Return the object in a line of the keeper; {} if it ended before it had written the line."""
    return cast(dict[str, Any], orjson.loads(line)) if line.endswith(b"\n") else {}


def _open_process(process: int) -> int | None:
    """Return a descriptor of the process, or None if it is gone. Unlike its id, it is never used again."""
    try:
        return os.pidfd_open(process)
    except ProcessLookupError:
        return None


async def _wait_for_process(descriptor: int) -> None:
    """Wait until the process is gone, and close its descriptor.

    The init process of a namespace is gone when no other process of it is left.
    """
    loop, gone = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, gone.set)
    try:
        await gone.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # most real-time signals have no name
        return f"signal {number}"


def _last_line(output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip()]
    printable = "".join(filter(str.isprintable, lines[-1])) if lines else ""
    return printable.strip()[:LAST_LINE_CHARACTERS]
