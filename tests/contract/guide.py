"""The commands and the server of a guide, run and compared with what it says they print."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.patience import PATIENCE_SECONDS

MARK = "@@ end of command @@"

PROGRAM = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
VARYING = (
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "<id>"),
    (re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}Z"), "<instant>"),
    (re.compile(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}"), "<instant>"),
    (re.compile(r"\b\d+ ms\b"), "<duration>"),
    (re.compile(r" +$", re.MULTILINE), ""),
    (re.compile(r"http://127\.0\.0\.1:\d+"), "<service>"),
)


@dataclass(frozen=True, slots=True)
class Example:
    """A command and the output that the guide shows, in which `…` stands for anything."""

    command: str
    expected: str

    def fits(self, printed: str) -> bool:
        parts = [re.escape(part) for part in normalized(self.expected).split("…")]
        return re.fullmatch(".*".join(parts), normalized(printed), re.DOTALL) is not None


def normalized(text: str) -> str:
    """Return the text without what differs from one run to the next."""
    for pattern, name in VARYING:
        text = pattern.sub(name, text)
    return text.replace("\r", "").strip()


def examples(guide: str) -> Iterator[Example]:
    """Yield all commands of the guide's console blocks, in order."""
    for block in BLOCK.findall(guide):
        for text in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, expected = _split(text.splitlines())
            yield Example(command, expected)


def _split(lines: Sequence[str]) -> tuple[str, str]:
    """Split the lines into the command, which may take several, and what it prints."""
    count = 1
    while lines[count - 1].endswith("\\") or not _is_whole("\n".join(lines[:count])):
        count += 1
    return "\n".join(lines[:count]), "\n".join(lines[count:])


def _is_whole(command: str) -> bool:
    return subprocess.run(["bash", "-n"], input=command, text=True, capture_output=True).returncode == 0


async def run(commands: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Run the commands in one shell and return what each of them prints."""
    commands = [command.replace("timeout -s INT 5 ", "timeout -s INT 20 ") for command in commands]  # if busy
    script = "".join(f"{command}\nprintf '\\n{MARK}\\n'\n" for command in commands)
    shell = await asyncio.create_subprocess_exec(
        "bash",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=environment,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            output, _ = await shell.communicate(script.encode())
    finally:
        with suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)  # what it has started in the background
    return output.decode().split(f"\n{MARK}\n")[: len(commands)]


@asynccontextmanager
async def tool_server(guide: str, directory: Path, **environment: str) -> AsyncIterator[str]:
    """Run the tool server of a guide and yield its address."""
    [program] = PROGRAM.findall(guide)
    file = directory / "tool_server.py"
    file.write_text(program)
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    environment = {**os.environ, **environment, "PORT": str(port), "PYTHONUNBUFFERED": "1"}
    process = await asyncio.create_subprocess_exec(
        sys.executable, file, stdout=asyncio.subprocess.PIPE, env=environment
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert b"Running on" in await process.stdout.readline()
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        await process.communicate()


def differences(documented: Sequence[Example], printed: Sequence[str]) -> list[str]:
    """Return what the commands have printed instead of what the guide says."""
    assert len(printed) == len(documented)
    return [
        f"$ {example.command}\n{output.strip()}\ninstead of\n{example.expected}"
        for example, output in zip(documented, printed, strict=True)
        if not example.fits(output)
    ]
