"""The assistant of docs/assistant.md is built by its commands, which print what the guide says."""

import socket
from pathlib import Path

import pytest

from tests.acceptance.process import Launch, Sections, serving
from tests.contract.guide import differences, examples, run
from tests.contract.test_guide import shell_environment
from tests.curl import environment_with_curl
from tests.paths import DOCS

pytestmark = pytest.mark.slow

GUIDE = DOCS / "assistant.md"
SERVICE = "http://127.0.0.1:8080"
PORTS = ("9100", "9200")  # of the model, of the gateway


def free_ports() -> list[str]:
    """Return two ports that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        return [str(each.getsockname()[1]) for each in (one, other)]


async def test_assistant_of_the_guide_answers_and_remembers(
    tmp_path: Path, database_url: str, launch: Launch
) -> None:
    documented, ports = list(examples(GUIDE.read_text())), free_ports()
    model = {"base_url": f"http://127.0.0.1:{ports[0]}/v1"}
    sections: Sections = {
        "server": {"port": 0},
        "database": {"url": database_url},
        "outbound": {"allow_private": True},
        "models.scripted": model,
        "models.openai": model,  # for the last part: the same program plays the real model
    }
    async with serving(tmp_path, "service", sections, launch) as process:
        commands = [example.command.replace(SERVICE, process.url) for example in documented]
        for documented_port, port in zip(PORTS, ports, strict=True):
            commands = [command.replace(documented_port, port) for command in commands]
        printed = await run(commands, shell_environment(environment_with_curl(tmp_path)))
    assert differences(documented, printed) == []
