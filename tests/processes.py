"""Find processes that are not the test's children, by a word in their environment; look for a sandbox."""

import asyncio
import os
import subprocess
from functools import cache
from pathlib import Path

from tests.patience import PATIENCE_SECONDS

POLL_SECONDS = 0.01


@cache
def has_sandbox() -> bool:
    """Return whether bubblewrap is installed and may create namespaces for a user without privileges."""
    drop = ("setpriv", "--reuid=nobody", "--regid=65534", "--clear-groups") if os.geteuid() == 0 else ()
    sandbox = ("bwrap", "--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc", "true")
    try:
        return subprocess.run([*drop, *sandbox], capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


def marked(mark: str) -> list[int]:
    """List the live processes with this word in their environment. A zombie has no environment."""
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit() and mark in _environment(entry)]


def children(process_id: int) -> list[int]:
    """Return the processes that a process has started, the one that was started last at the end."""
    listed = Path(f"/proc/{process_id}/task/{process_id}/children").read_text()
    return [int(child) for child in listed.split()]


def is_alive(process_id: int) -> bool:
    """Return whether the process runs. A zombie does not."""
    try:
        stat = Path(f"/proc/{process_id}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(") ")[2][0] not in "ZX"


async def all_gone(mark: str, within: float = PATIENCE_SECONDS) -> None:
    """Return when no process with this mark is left."""
    try:
        async with asyncio.timeout(within):
            while marked(mark):  # noqa: ASYNC110 -- not our children, so there is nothing to wait for
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        raise AssertionError(f"processes {marked(mark)} still run after {within} s") from None


async def content(file: Path) -> str:
    """Wait for the line that another process writes into a file, and return it."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not (line := _line_of(file)):  # noqa: ASYNC110
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        raise AssertionError(f"{file.name} has no complete line after {PATIENCE_SECONDS} s") from None
    return line.rstrip("\n")


def _line_of(file: Path) -> str:
    """Return the file's content, or an empty string until it ends with a newline."""
    text = file.read_text() if file.exists() else ""
    return text if text.endswith("\n") else ""


def _environment(process_id: str) -> str:
    try:
        return Path(f"/proc/{process_id}/environ").read_text(errors="replace")
    except OSError:
        return ""
