"""Processes of others, as a test may look at them: by a word in their environment, command line or files."""

import asyncio
import os
from pathlib import Path

PATIENCE_SECONDS = 20.0
POLL_SECONDS = 0.01


def marked(mark: str) -> list[int]:
    """The live processes that have this word in their environment; a zombie has none any more."""
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit() and mark in _environment(entry)]


def is_alive(process_id: int) -> bool:
    """Whether it runs; a zombie does not."""
    try:
        stat = Path(f"/proc/{process_id}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(") ")[2][0] not in "ZX"


async def all_gone(mark: str, within: float = PATIENCE_SECONDS) -> None:
    """Return when no process with this mark is left."""
    try:
        async with asyncio.timeout(within):
            while marked(mark):  # noqa: ASYNC110 -- they are no children of ours
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        raise AssertionError(f"after {within} s there are still {marked(mark)}") from None


async def content(file: Path, within: float = PATIENCE_SECONDS) -> str:
    """The line that another process writes into a file, once it is there."""
    try:
        async with asyncio.timeout(within):
            while not (line := _line_of(file)):  # noqa: ASYNC110
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        raise AssertionError(f"waited {within} s in vain for {file.name}") from None
    return line.rstrip("\n")


def _line_of(file: Path) -> str:
    """Blank until it is whole."""
    text = file.read_text() if file.exists() else ""
    return text if text.endswith("\n") else ""


def _environment(process_id: str) -> str:
    try:
        return Path(f"/proc/{process_id}/environ").read_text(errors="replace")
    except OSError:
        return ""
