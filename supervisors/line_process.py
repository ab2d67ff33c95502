"""A process that answers lines: a request is written to its input, and its answer read from its output.

It does what would hold up the event loop. It ends when its input is closed, so also if the service is killed.
"""

import asyncio
import sys
from asyncio import StreamReader, StreamWriter
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import structlog

log = structlog.get_logger()

MAX_COMPLAINT_BYTES = 4096


@dataclass(frozen=True, slots=True)
class LineProcess:
    """A running process, the module that it runs, and the pipes to it."""

    module: str
    process: Process
    requests: StreamWriter
    answers: StreamReader
    complaints: StreamReader | None  # what it prints to stderr, unless that is our own

    @property
    def has_ended(self) -> bool:
        return self.process.returncode is not None

    async def ask(self, request: bytes) -> bytes:
        """Send a request line and return the answer line; empty if the process has ended."""
        if self.requests.is_closing():  # uvloop refuses to write
            return b""
        try:
            self.requests.write(request)
            await self.requests.drain()
        except ConnectionError:
            return b""
        return await self.answers.readline()

    async def close(self) -> None:
        """End the process."""
        if not self.has_ended:
            self.process.kill()
        await self.process.wait()
        self.requests.close()
        if self.complaints and (complaint := await self.complaints.read(MAX_COMPLAINT_BYTES)):
            log.debug("a process has failed", module=self.module, reason=complaint.decode(errors="replace"))


async def start_line_process(
    module: str, option: str, *, stderr: int | None = None, environment: Mapping[str, str] | None = None
) -> LineProcess:
    """Start the module with an option of the interpreter, in this environment or, if it is None, in ours."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, option, "-m", module),
        stdin=PIPE,
        stdout=PIPE,
        stderr=stderr,
        env=environment,
        start_new_session=True,  # Ctrl-C and a closed terminal mean the service, which then ends it
    )
    requests, answers = cast(StreamWriter, process.stdin), cast(StreamReader, process.stdout)
    return LineProcess(module, process, requests, answers, process.stderr)
