"""A process of the agents' own code with all its descendants: started, read, and killed to the last one.

In a sandbox they are a PID namespace, all of which the kernel kills with its first process. That one, and so
the whole namespace, also dies with `bwrap`:

    service ──► bwrap ──► bwrap, the init process of the namespace ──► command ──► descendants

If the service is killed or frozen, its guardian kills them (`hostsvc.process_harness.lease`).
"""

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen

import structlog

from hostsvc.process_harness.cache import FolderRefused, measure_folder
from hostsvc.process_harness.guardian import KILL_AGAIN_SECONDS, KILL_SECONDS, kill_once
from hostsvc.process_harness.network import open_relay
from hostsvc.process_harness.sandbox import (
    MEGABYTE,
    ProcessSpec,
    command_line,
    has_run_out_of_memory,
    make_group,
    sandbox_options,
)
from hostsvc.process_harness.settings import RunLimits
from supervisors.clock import wait_until_readable

log = structlog.get_logger()

MEASURE_SECONDS = 5.0
MEASURE_SHARE = 20  # a measurement takes at most this part of the time
OUTPUT_BYTES = 65_536
OUTPUT_SECONDS = 1.0  # after the end of a process: without a sandbox, somebody else may have its output open
READ_PAUSE_SECONDS = 0.005
LAST_LINE_CHARACTERS = 300
SIGNALED = range(129, 193)  # exit codes of bwrap: 128 and the signal that killed the command

NOT_KILLED = f"its processes could not be killed within {KILL_SECONDS:g} s"
NOT_STARTED = "prlimit: failed to execute "

# What a program says when it meets a limit that the kernel only reports to it.
HINTS = {
    "Too many open files": "open_files",
    "EMFILE": "open_files",
    "File too large": "file_mb",
    "EFBIG": "file_mb",
    "Resource temporarily unavailable": "processes",
    "can't start new thread": "processes",
    "Cannot fork": "processes",
    "MemoryError": "memory_mb",
    "Cannot allocate memory": "memory_mb",
    "out of memory": "memory_mb",
}
SIGNAL_HINTS: Mapping[int | None, str] = {-signal.SIGXFSZ: "file_mb", -signal.SIGXCPU: "cpu_seconds"}


@dataclass(frozen=True, slots=True)
class ProcessEnd:
    """The end of a process: `code` is its exit code, or minus the signal that killed it; None if it goes on.

    `error` says why it did not start or end, `exceeded` names a limit because of which it was killed, and
    `output` is the end of what it wrote.
    """

    code: int | None
    error: str = ""
    exceeded: str = ""
    output: str = field(default="", repr=False)

    def describe(self, limits: RunLimits) -> str:
        """Describe a failure with the last line of output; return a blank for exit code 0."""
        if self.error:
            return self.error
        if self.exceeded:
            return f"killed because it exceeded {self.exceeded}"
        if not self.code:
            return ""
        last_line = _last_line(self.output)
        if last_line.startswith(NOT_STARTED):
            return f"the command could not be started: {last_line.removeprefix(NOT_STARTED)}"
        cause = f"exit code {self.code}" if self.code > 0 else f"killed by {_signal_name(-self.code)}"
        return (f"{cause}: {last_line}" if last_line else cause) + self._hint(last_line, limits)

    def _hint(self, last_line: str, limits: RunLimits) -> str:
        said = next((key for words, key in HINTS.items() if words in last_line), "")
        key = SIGNAL_HINTS.get(self.code, said)
        limit = getattr(limits, key) if key else 0
        return f" (harness.limits.{key} is {limit})" if limit else ""


@dataclass(frozen=True, slots=True)
class Started:
    """A process that was started, the pipe with its output, and what is closed or removed when it is gone."""

    spec: ProcessSpec
    process: Popen[bytes]
    handle: int
    output: int
    owned: ExitStack
    group: Path | None


class RunProcess:
    """One process with its descendants; `open_process` starts it.

    Without a sandbox they are found by the process group, and by the variable HOME that they inherit.
    """

    def __init__(self, started: Started) -> None:
        self.ended = asyncio.Event()  # set when nothing of it is left
        self.is_overdue = False  # it was killed, but the kernel does not let go of all its processes
        self._spec = started.spec
        self._started = started.process
        self._output = b""
        self._error = self._exceeded = ""
        self._life = asyncio.create_task(self._live(started), name="process of a run")
        self._life.add_done_callback(self._end)

    def terminate(self) -> None:
        """Send SIGTERM to the process group of the command."""
        if not self.ended.is_set():
            self._terminate()

    async def kill(self) -> ProcessEnd:
        """Send SIGKILL to all that is left of it, wait until it is gone, and return its end.

        After KILL_SECONDS return an end that says that something is left; `ended` is set when it is gone.
        """
        self._kill()
        done, _ = await asyncio.wait({self._life}, timeout=0 if self.is_overdue else KILL_SECONDS)
        if done:
            return self._life.result()
        if not self.is_overdue:
            self.is_overdue = True
            self._started.kill()  # perhaps it never became a sandbox
            log.error("processes of a run cannot be killed", home=str(self._spec.home))
        return ProcessEnd(None, NOT_KILLED)

    def stay_in(self, alive: set["RunProcess"]) -> None:
        """Be in this set until nothing is left."""
        alive.add(self)
        self._life.add_done_callback(lambda _: alive.discard(self))

    async def abandon(self) -> None:
        """Stop waiting for what the kernel does not let go of, because the service ends."""
        self._life.cancel()
        await asyncio.wait({self._life})

    def _terminate(self) -> None:
        self._send(signal.SIGTERM)

    def _kill(self) -> None:
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        if self._started.returncode is None:  # else another group may have its number
            with suppress(ProcessLookupError):
                os.killpg(self._started.pid, number)

    async def _live(self, started: Started) -> ProcessEnd:
        """Wait until nothing is left of the process, and return its end."""
        reading = asyncio.create_task(self._read_output(started.output), name="output of a run")
        watch = asyncio.create_task(self._watch_folder(), name="size of the folder of a run")
        with started.owned:
            try:
                code = await self._wait_until_gone(started.handle)
                if started.group is not None and has_run_out_of_memory(started.group):
                    self._exceeded = f"harness.limits.memory_mb ({self._spec.limits.memory_mb})"
                await asyncio.wait({reading}, timeout=OUTPUT_SECONDS)
                output = self._output.decode(errors="replace")
                return ProcessEnd(code, self._error, self._exceeded, output)
            finally:
                watch.cancel()
                reading.cancel()
                await asyncio.wait({watch, reading}, timeout=OUTPUT_SECONDS)

    async def _wait_until_gone(self, handle: int) -> int:
        """Wait until the command has ended and nothing else of it is found, and return its exit code."""
        await wait_until_readable(handle)
        await kill_all(str(self._spec.home))
        return self._started.wait()

    async def _read_output(self, pipe: int) -> None:
        """Keep the end of the output. Pause after each piece, so that a flood of it waits in its pipe."""
        while piece := await _read(pipe):
            self._output = (self._output + piece)[-OUTPUT_BYTES:]
            await asyncio.sleep(READ_PAUSE_SECONDS)

    async def _watch_folder(self) -> None:
        limit, pause = self._spec.limits.home_mb, MEASURE_SECONDS
        while limit and not self._exceeded:
            await asyncio.sleep(pause)
            started = time.monotonic()
            try:
                used = await asyncio.to_thread(measure_folder, self._spec.folder, limit * MEGABYTE)
            except FolderRefused as error:
                self._exceeded = f"harness.limits.home_mb: {error}"
            else:
                self._exceeded = f"harness.limits.home_mb ({limit})" if used > limit * MEGABYTE else ""
            pause = max(MEASURE_SECONDS, MEASURE_SHARE * (time.monotonic() - started))
        if self._exceeded:
            self._kill()

    def _end(self, _life: asyncio.Task[ProcessEnd]) -> None:
        if self.is_overdue:
            log.info("processes of a run that could not be killed are gone", home=str(self._spec.home))
        self.ended.set()


class SandboxedProcess(RunProcess):
    """A process in a sandbox, with its descendants: all that is in one PID namespace.

    `info` is where bwrap writes the id of the first process in it, and `go` is what a run that reaches only
    the service waits for.
    """

    def __init__(self, started: Started, *, info: int, go: int) -> None:
        super().__init__(started)
        self._info = info
        self._go = go
        self._init = 0  # the id of the first process in the namespace, which ends after all others
        self._handle: int | None = None  # of that process
        self._is_killed = False

    def _terminate(self) -> None:
        if not self._init:
            self._kill()
            return
        try:  # the first process leads the group, and ignores this
            os.killpg(self._init, signal.SIGTERM)
        except ProcessLookupError:  # there is no group yet
            self._kill()

    def _kill(self) -> None:
        self._is_killed = True
        if self._handle is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
            self._started.kill()

    async def _wait_until_gone(self, handle: int) -> int:
        await self._find_init()
        try:
            async with AsyncExitStack() as network:
                await self._open_network(network)
                await wait_until_readable(handle)
            code = self._started.wait()
            self._kill()
            if self._handle is not None:
                await wait_until_readable(self._handle)
                with suppress(ChildProcessError):  # it is our child if the service is the first process
                    os.waitid(os.P_PIDFD, self._handle, os.WEXITED | os.WNOHANG)  # noqa: ASYNC222 -- no wait
        finally:
            if self._handle is not None:
                os.close(self._handle)
                self._handle = None
        return 128 - code if code in SIGNALED else code

    async def _find_init(self) -> None:
        """Wait for the first process. There is none if the sandbox cannot be created."""
        text = b""
        while b"}" not in text:
            if not (piece := await _read(self._info)):
                return
            text += piece
        self._init = json.loads(text)["child-pid"]
        with suppress(ProcessLookupError):
            self._handle = os.pidfd_open(self._init)
        if self._is_killed:
            self._kill()

    async def _open_network(self, network: AsyncExitStack) -> None:
        """Let the command begin once its network is complete."""
        if not self._init or self._spec.containment.network == "full":
            return
        try:
            await network.enter_async_context(open_relay(self._init, self._spec.service))
        except OSError as error:
            self._error = f"the network of the run could not be opened: {error.strerror}"
            self._kill()
        with suppress(BrokenPipeError):
            os.write(self._go, b".")


@asynccontextmanager
async def open_process(spec: ProcessSpec) -> AsyncIterator[RunProcess]:
    """Start a process; on exit, kill what is left of it."""
    process = _start(spec)
    try:
        yield process
    finally:
        await process.kill()


def _start(spec: ProcessSpec) -> RunProcess:
    is_contained = spec.containment.kind == "bubblewrap"
    with ExitStack() as owned, ExitStack() as passed:
        output, output_end = _pipe(owned, passed)
        os.set_blocking(output, False)  # a run that has our user can open it, too
        info, info_end = _pipe(owned, passed)
        go_end, go = _pipe(passed, owned)
        descriptors = {"--info-fd": info_end}
        if is_contained:
            descriptors["--args"] = _memory_file(sandbox_options(spec), passed)
        if spec.containment.network == "service":
            descriptors["--block-fd"] = go_end
        if group := make_group(spec):
            owned.callback(_remove_group, group)
        process = Popen(  # noqa: S603 -- the operator's command
            command_line(spec, descriptors, group),
            stdin=_memory_file(spec.input.encode(), passed),
            stdout=output_end,
            stderr=output_end,
            env=spec.marks if is_contained else spec.environment,
            cwd="/" if is_contained else spec.directory,
            pass_fds=tuple(descriptors.values()) if is_contained else (),
            start_new_session=True,
        )
        handle = os.pidfd_open(process.pid)
        owned.callback(os.close, handle)
        started = Started(spec, process, handle, output, owned.pop_all(), group)
        return SandboxedProcess(started, info=info, go=go) if is_contained else RunProcess(started)


def _remove_group(group: Path) -> None:
    with suppress(OSError):  # the kernel does not let go of a process in it
        group.rmdir()


def _pipe(reader: ExitStack, writer: ExitStack) -> tuple[int, int]:
    """Return the two ends of a new pipe, each of which its owner closes."""
    ends = os.pipe()
    for owner, end in zip((reader, writer), ends, strict=True):
        owner.callback(os.close, end)
    return ends


def _memory_file(content: bytes, owner: ExitStack) -> int:
    """Return a file that contains this: unlike a pipe it never blocks the writer."""
    file = os.memfd_create("input")
    owner.callback(os.close, file)
    while content:
        content = content[os.write(file, content) :]
    os.lseek(file, 0, os.SEEK_SET)
    return file


async def _read(pipe: int) -> bytes:
    """Return the next piece from a pipe, or nothing at its end."""
    while True:
        await wait_until_readable(pipe)
        with suppress(BlockingIOError):  # the run has read its output itself
            return os.read(pipe, OUTPUT_BYTES)


async def kill_all(home: str) -> None:
    """Kill all processes with this HOME, or one below it, again and again until none is left."""
    mark = f"HOME={home}".encode()
    while await asyncio.to_thread(kill_once, mark):  # noqa: ASYNC110 -- they are not our children
        await asyncio.sleep(KILL_AGAIN_SECONDS)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # most real-time signals have no name
        return f"signal {number}"


def _last_line(output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip()]
    printable = "".join(filter(str.isprintable, lines[-1])) if lines else ""
    return printable.strip()[:LAST_LINE_CHARACTERS]
