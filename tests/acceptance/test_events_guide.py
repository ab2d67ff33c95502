"""The commands of docs/events.md print what the guide says, and its program follows events."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from tests.acceptance.client import sign_up
from tests.acceptance.process import Launch, Sections, serving
from tests.acceptance.services import Services
from tests.chromium import chromium
from tests.contract.test_guide import paste
from tests.curl import environment_with_curl
from tests.paths import DOCS
from tests.patience import PATIENCE_SECONDS

GUIDE = (DOCS / "events.md").read_text()
SCRIPT = re.compile(r"<script>\n(.*?)</script>", re.DOTALL)
PROGRAM = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


async def test_commands_print_what_the_guide_says(tmp_path: Path, database_url: str, launch: Launch) -> None:
    sections: Sections = {"server": {"port": 0}, "database": {"url": database_url}}
    async with serving(tmp_path, "service", sections, launch) as process:
        await paste(GUIDE, process.url, environment_with_curl(tmp_path))


async def test_program_of_the_guide_follows_events(
    tmp_path: Path, services: Services, session: ClientSession
) -> None:
    service = await services.start()
    client = await sign_up(session, service.url)
    agent = await client.create_agent(name="Grace")
    [source] = PROGRAM.findall(GUIDE)
    program: dict[str, Any] = {}
    exec(compile(source, "docs/events.md", "exec"), program)  # noqa: S102 -- the guide is ours
    key = client.authorization.split()[1]
    events = program["events"](f"{service.url}/api/cloud/agents/{agent}/events/", key, 0)
    created = await asyncio.to_thread(next, events)
    assert (created["type"], created["resource"]["name"]) == ("agent.created", "Grace")
    waiting = asyncio.create_task(asyncio.to_thread(next, events))
    notification = await client.notify(agent, priority="low")
    assert (await waiting)["resource_id"] == notification["id"]


@pytest.mark.console
async def test_script_of_the_guide_gets_new_tickets(services: Services, session: ClientSession) -> None:
    service = await services.start()
    client = await sign_up(session, service.url)
    agent = await client.create_agent(name="Grace")
    ticket = (await client.post("/api/events/tickets/"))["ticket"]
    [script] = SCRIPT.findall(GUIDE)
    async with chromium() as page:
        await page.goto(f"{service.url}/api/docs/")
        tickets = json.dumps([None, "expired", ticket])  # the first time there is no answer
        await page.evaluate(
            f"const tickets = {tickets}; window.seen = [];"
            "window.fetch = async () => {"
            "  const ticket = tickets.shift();"
            "  if (!ticket) throw new TypeError('Failed to fetch');"
            "  return {json: async () => ({ticket})};"
            "};"
            f"{script} follow('{agent}', 0, event => seen.push(event.type)); 1"
        )
        await client.notify(agent)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (seen := await page.evaluate("seen"))[-1:] != ["agent.asleep"]:
                pass
    assert seen == ["run.started", "run.ended", "agent.asleep"]
