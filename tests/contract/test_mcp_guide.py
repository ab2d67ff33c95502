"""The commands of docs/mcp.md print what it says, and its program works."""

import json
import re
import sys
from pathlib import Path

import pytest

from tests.acceptance.process import Launch, Sections, serving
from tests.contract.guide import examples, run
from tests.curl import environment_with_curl
from tests.paths import DOCS

pytestmark = pytest.mark.slow

GUIDE = DOCS / "mcp.md"
SERVICE = "http://127.0.0.1:8080"
PROGRAM = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SETTINGS = re.compile(r"^```json\n(.*?)^```$", re.MULTILINE | re.DOTALL)


async def test_mcp_guide_works_as_described(tmp_path: Path, database_url: str, launch: Launch) -> None:
    guide = GUIDE.read_text()
    [program] = PROGRAM.findall(guide)
    file = tmp_path / "tools.py"
    file.write_text(program)
    documented = list(examples(guide))
    sections: Sections = {"server": {"port": 0}, "database": {"url": database_url}}
    async with serving(tmp_path, "service", sections, launch) as process:
        commands = [
            example.command.replace(SERVICE, process.url)
            .replace("python3 tools.py", f"{sys.executable} tools.py")
            .replace("tools.py", str(file))
            for example in documented
        ]
        printed = await run(commands, environment_with_curl(tmp_path))
    assert len(printed) == len(documented)
    for example, output in zip(documented, printed, strict=True):
        assert example.fits(output), f"$ {example.command}\n{output.strip()}\ninstead of\n{example.expected}"


def test_settings_of_the_mcp_guide_name_the_endpoint() -> None:
    for settings in SETTINGS.findall(GUIDE.read_text()):
        [servers] = [value for name, value in json.loads(settings).items() if "ervers" in name]
        assert servers["agents"]["url"] == f"{SERVICE}/mcp/"
        assert servers["agents"]["headers"]["Authorization"].startswith("Bearer ")
