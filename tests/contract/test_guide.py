"""The commands of docs/api.md print what it says."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.acceptance.process import Launch, Sections, serving
from tests.contract.guide import examples, run
from tests.curl import environment_with_curl
from tests.paths import ROOT

GUIDE = ROOT / "docs" / "api.md"
ADDRESS = "http://127.0.0.1:8080"


def with_python(environment: Mapping[str, str]) -> dict[str, str]:
    """Let `python3` be this one: that of the machine may be a script which takes long to find it."""
    return {**environment, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"}


async def test_commands_of_the_guide_print_what_it_says(
    tmp_path: Path, database_url: str, launch: Launch
) -> None:
    documented = list(examples(GUIDE.read_text()))
    sections: Sections = {"server": {"port": 0}, "database": {"url": database_url}}
    async with serving(tmp_path, "service", sections, launch) as process:
        printed = await run(
            [example.command.replace(ADDRESS, process.url) for example in documented],
            with_python(environment_with_curl(tmp_path)),
        )
    assert len(printed) == len(documented)
    for example, output in zip(documented, printed, strict=True):
        assert example.fits(output), f"$ {example.command}\n{output.strip()}\ninstead of\n{example.expected}"
