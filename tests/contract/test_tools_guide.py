"""The tool server of docs/tools.md works, and the commands of the guide print what it says."""

import asyncio
import os
import re
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.acceptance.process import Launch, Sections, serving
from tests.contract.guide import examples, run
from tests.curl import environment_with_curl
from tests.paths import ROOT

pytestmark = pytest.mark.slow

GUIDE = ROOT / "docs" / "tools.md"
SERVICE = "http://127.0.0.1:8080"
TOOLS = "http://127.0.0.1:9000"
PROGRAM = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECRET = re.compile(r"TOOL_CALL_SECRET=(\S+)")
PATIENCE_SECONDS = 60.0


@asynccontextmanager
async def tool_server(guide: str, directory: Path) -> AsyncIterator[str]:
    """Run the tool server of the guide and yield its address."""
    [program], secret = PROGRAM.findall(guide), SECRET.search(guide)
    assert secret is not None
    file = directory / "weather.py"
    file.write_text(program)
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    environment = os.environ | {"PORT": str(port), "TOOL_CALL_SECRET": secret[1], "PYTHONUNBUFFERED": "1"}
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


async def test_tool_server_of_the_guide_works_as_described(
    tmp_path: Path, database_url: str, launch: Launch
) -> None:
    guide = GUIDE.read_text()
    documented = list(examples(guide))
    sections: Sections = {
        "server": {"port": 0},
        "database": {"url": database_url},
        "outbound": {"allow_private": True},
    }
    async with (
        tool_server(guide, tmp_path) as tools,
        serving(tmp_path, "service", sections, launch) as process,
    ):
        commands = [
            example.command.replace(SERVICE, process.url).replace(TOOLS, tools) for example in documented
        ]
        printed = await run(commands, environment_with_curl(tmp_path))
    assert len(printed) == len(documented)
    for example, output in zip(documented, printed, strict=True):
        assert example.fits(output), f"$ {example.command}\n{output.strip()}\ninstead of\n{example.expected}"
