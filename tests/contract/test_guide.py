"""The commands of README.md and docs/api.md print what the texts say, in any order on one database."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.acceptance.process import Launch, Sections, serving
from tests.acceptance.services import OPERATOR_TOKEN
from tests.contract.guide import differences, examples, run
from tests.curl import environment_with_curl
from tests.paths import DOCS, ROOT

pytestmark = pytest.mark.slow

ADDRESS = "http://127.0.0.1:8080"
COMMAND = ".venv/bin/hostsvc"
TOUR = (ROOT / "README.md").read_text().partition("## Five minutes")[2].partition("\n## ")[0]
GUIDE = (DOCS / "api.md").read_text()


def shell_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Put this Python first, as the `python3` of the machine may start slowly; add the operator token."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    return {**environment, "PATH": path, "HOSTSVC__OPERATOR__TOKEN": OPERATOR_TOKEN, "COLUMNS": "110"}


@pytest.mark.parametrize(
    "texts",
    [
        pytest.param((TOUR, GUIDE), id="tour first"),
        pytest.param((GUIDE, TOUR), id="guide first", marks=pytest.mark.long),
    ],
)
async def test_commands_print_what_the_texts_say(
    tmp_path: Path, database_url: str, launch: Launch, texts: tuple[str, str]
) -> None:
    sections: Sections = {
        "server": {"port": 0},
        "database": {"url": database_url},
        "operator": {"token": OPERATOR_TOKEN},
    }
    for number, text in enumerate(texts):
        async with serving(tmp_path, f"service {number}", sections, launch) as process:
            await paste(text, process.url, environment_with_curl(tmp_path))


async def paste(text: str, url: str, environment: Mapping[str, str]) -> None:
    """Run the commands of a text on the service at this address, and compare what they print."""
    documented = list(examples(text))
    commands = [
        example.command.replace(ADDRESS, url)
        .replace(f"{COMMAND} status", f"hostsvc status --url {url}")
        .replace(f"{COMMAND} tail", f"hostsvc tail --url {url}")
        .replace(f"{COMMAND} operator-token", f"printf %s {OPERATOR_TOKEN}")
        for example in documented
    ]
    printed = await run(commands, shell_environment(environment))
    assert documented
    assert differences(documented, printed) == []
