"""The tool servers of two guides work, and the commands of the guides print what they say."""

import re
from pathlib import Path

import pytest

from tests.acceptance.process import Launch, Sections, serving
from tests.contract.guide import differences, examples, run, tool_server
from tests.curl import environment_with_curl
from tests.paths import DOCS

pytestmark = pytest.mark.slow

SERVICE = "http://127.0.0.1:8080"
TOOLS = "http://127.0.0.1:9000"
SECRET = re.compile(r"TOOL_CALL_SECRET=(\S+)")


@pytest.mark.parametrize("name", ["tools.md", "approvals.md"])
async def test_tool_server_of_the_guide_works_as_described(
    tmp_path: Path, database_url: str, launch: Launch, name: str
) -> None:
    guide = (DOCS / name).read_text()
    documented, secret = list(examples(guide)), SECRET.search(guide)
    sections: Sections = {
        "server": {"port": 0},
        "database": {"url": database_url},
        "outbound": {"allow_private": True},
    }
    async with (
        tool_server(guide, tmp_path, TOOL_CALL_SECRET=secret[1] if secret else "") as tools,
        serving(tmp_path, "service", sections, launch) as process,
    ):
        commands = [
            example.command.replace(SERVICE, process.url).replace(TOOLS, tools) for example in documented
        ]
        printed = await run(commands, environment_with_curl(tmp_path))
    assert differences(documented, printed) == []
