"""The MCP server of docs/mcp-servers.md works, and its commands print what it says."""

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
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.slow

GUIDE = ROOT / "docs" / "mcp-servers.md"
PROGRAM = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SERVICE = "http://127.0.0.1:8080"
SHOP = "http://127.0.0.1:9000"


@asynccontextmanager
async def shop(guide: str, directory: Path) -> AsyncIterator[str]:
    """Run the server of the guide and yield its address."""
    [program] = PROGRAM.findall(guide)
    file = directory / "shop.py"
    file.write_text(program)
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    environment = os.environ | {"PORT": str(port)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, file, env=environment, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await is_open(port):  # noqa: ASYNC110 -- the server has no event for that
                await asyncio.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        await process.communicate()


async def is_open(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionError:
        return False
    writer.close()
    return True


async def test_mcp_server_of_the_guide_works_as_described(
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
        shop(guide, tmp_path) as address,
        serving(tmp_path, "service", sections, launch) as process,
    ):
        commands = [
            example.command.replace(SERVICE, process.url).replace(SHOP, address) for example in documented
        ]
        printed = await run(commands, environment_with_curl(tmp_path))
    assert len(printed) == len(documented)
    for example, output in zip(documented, printed, strict=True):
        assert example.fits(output), f"$ {example.command}\n{output.strip()}\ninstead of\n{example.expected}"
