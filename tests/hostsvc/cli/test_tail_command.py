"""What `hostsvc tail` prints; `tests/acceptance/test_tail_command.py` runs it against a service."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest

from hostsvc.cli import tail_command
from hostsvc.cli.status_client import status_client
from hostsvc.cli.tail_command import EventPrinter, TailOptions, escaped_json
from tests.hostsvc.cli.answers import serving_json
from tests.hostsvc.cli.test_status_screen import snapshot
from tests.hostsvc.cli.test_tail_lines import event

AGENT, GONE = str(UUID(int=7)), str(UUID(int=8))


@asynccontextmanager
async def printer(**options: Any) -> AsyncIterator[EventPrinter]:
    """Open a printer whose service knows one agent, Grace."""
    answers = {f"/status/supervisors/{AGENT}/": snapshot(agent=AGENT, name="Grace")}
    async with serving_json(answers) as url, status_client(url) as client:
        yield EventPrinter(client, TailOptions(**options))


def of(agent: str | None, **fields: Any) -> dict[str, Any]:
    return {**event("notification.cleared", **fields), "agent": agent}


async def test_line_names_the_agent_or_its_id(capsys: pytest.CaptureFixture[str]) -> None:
    async with printer() as lines:
        await lines.print_event("notification.cleared", of(AGENT))
        await lines.print_event("notification.cleared", of(GONE))
        await lines.print_event("agent.changed", of(AGENT, resource={"id": AGENT, "name": "Ada"}))
        await lines.print_event("notification.cleared", of(AGENT))
        await lines.print_event("organization.paused", of(None))
    named = [line.split("  ", 3)[2].strip() for line in capsys.readouterr().out.splitlines()]
    assert named[:4] == ["Grace", GONE, "Ada", "Ada"]
    assert "Grace" not in named[4]


async def test_names_are_kept_up_to_a_limit(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail_command, "MAX_NAMES", 1)
    async with printer() as lines:
        for agent in (AGENT, GONE, AGENT):
            await lines.print_event("notification.cleared", of(agent))
    assert capsys.readouterr().out.count("Grace") == 2


async def test_reset_is_told_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    async with printer() as lines:
        await lines.print_event("reset", {"type": "reset", "oldest": 7})
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("hostsvc: older events have been deleted")


async def test_json_is_printed_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    async with printer(as_json=True) as lines:
        await lines.print_event("reset", {"type": "reset", "oldest": 7})
        await lines.print_event("notification.cleared", of(AGENT, resource={"title": "Grüße\n"}))
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first == {"type": "reset", "oldest": 7}
    assert second["resource"] == {"title": "Grüße\n"}


@pytest.mark.parametrize("text", ["\x1b[2J", "\x07", "\n", "\x9b31m", "\u202e", "\x7f"])
def test_json_line_holds_no_control_characters(text: str) -> None:
    line = escaped_json({"title": text})
    assert line.isprintable()
    assert json.loads(line) == {"title": text}
