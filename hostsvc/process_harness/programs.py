"""The small programs that do the work of the harness, such as git and rm: each runs beside the event loop."""

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import structlog

log = structlog.get_logger()

CLEAN_UP_SECONDS = 2.0  # for a program to remove its lock files
MESSAGE_CHARACTERS = 300
# The owner of directories without permissions may remove what is in them after giving them to himself.
REMOVE = 'rm -rf -- "$@" 2>/dev/null || { chmod -R u+rwx -- "$@"; rm -rf -- "$@"; }'


class ProgramEnd(NamedTuple):
    """The end of a program: its exit code, or minus the signal that killed it, and what it wrote."""

    code: int | None
    output: str
    errors: str


async def run_program(
    *command: str,
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
    seconds: float | None = None,
) -> ProgramEnd:
    """Run a program to its end. Raise TimeoutError after so many seconds, and OSError if it does not start.

    If it takes too long, or this is cancelled, the program and its children are ended first.
    """
    starting = asyncio.create_task(
        asyncio.create_subprocess_exec(
            *command,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            cwd=directory,
            env=environment,
            start_new_session=True,
        )
    )
    try:
        async with asyncio.timeout(seconds):
            # If asyncio is cancelled while it starts a program, it waits for the end of its children.
            process = await asyncio.shield(starting)
            output, errors = await process.communicate()
    finally:
        await _end(await starting)
    return ProgramEnd(process.returncode, output.decode(errors="replace"), errors.decode(errors="replace"))


async def _end(process: Process) -> None:
    """Terminate a program and its children if they are still running."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        await asyncio.wait({asyncio.ensure_future(process.wait())}, timeout=CLEAN_UP_SECONDS)


async def remove(*trees: Path) -> None:
    """Remove files and directory trees, whatever is in them. Log what cannot be removed."""
    end = await run_program("sh", "-c", REMOVE, "remove", *map(str, trees))
    if end.code:
        reason = end.errors.strip()[-MESSAGE_CHARACTERS:]
        log.warning("a directory that a run left cannot be removed", reason=reason)
