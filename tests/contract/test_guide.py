"""The commands of README.md and docs/api.md print what the texts say."""

import sys
from pathlib import Path

import pytest

from tests.acceptance.process import Sections, serving
from tests.acceptance.services import OPERATOR_TOKEN
from tests.contract.guide import examples, run
from tests.curl import environment_with_curl
from tests.paths import DOCS, ROOT

ADDRESS = "http://127.0.0.1:8080"
COMMAND = ".venv/bin/hostsvc"
TOUR = (ROOT / "README.md").read_text().partition("## Five minutes")[2].partition("\n## ")[0]
GUIDE = (DOCS / "api.md").read_text()


@pytest.mark.parametrize("text", [TOUR, GUIDE], ids=["README.md", "docs/api.md"])
async def test_commands_print_what_the_text_says(tmp_path: Path, database_url: str, text: str) -> None:
    documented = list(examples(text))
    assert documented
    sections: Sections = {
        "server": {"port": 0},
        "database": {"url": database_url},
        "operator": {"token": OPERATOR_TOKEN},
    }
    environment = dict(environment_with_curl(tmp_path))
    environment |= {"HOSTSVC__OPERATOR__TOKEN": OPERATOR_TOKEN, "COLUMNS": "110"}
    installed = str(Path(sys.executable).with_name("hostsvc"))
    async with serving(tmp_path, "service", sections) as process:
        status = f"{installed} status --url {process.url}"
        commands = [
            example.command.replace(ADDRESS, process.url)
            .replace(f"{COMMAND} status", status)
            .replace(f"{COMMAND} operator-token", f"printf %s {OPERATOR_TOKEN}")
            for example in documented
        ]
        printed = await run(commands, environment)
    assert len(printed) == len(documented)
    for example, output in zip(documented, printed, strict=True):
        assert example.fits(output), f"$ {example.command}\n{output.strip()}\ninstead of\n{example.expected}"
