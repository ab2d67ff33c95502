"""Tests of agents by the plugin `hostsvc_testing` run against a whole service, in real time."""

import asyncio
import os
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import orjson
from aiohttp import ClientSession

from tests.acceptance.client import Client, sign_up
from tests.acceptance.services import Services
from tests.openai_endpoint import Json, Says, open_endpoint
from tests.receiver import receiving

TESTS = """
from datetime import timedelta

import pytest


async def test_passes(world):
    agent = await world.agent(template="support", timezone="Europe/Vienna")
    await world.client.agent(agent.id).call_tool("ask_person", question="May I?")
    sent = {"channel": "sms", "direction": "outbound", "status": "sent", "body": "Soon."}
    await world.client.messages.create(agent=agent.id, **sent)
    await world.client.documents.create(agent=agent.id, title="Core", path="/memories/core.md", content="tea")
    await world.text(agent, sender="+436601234567", body="Where is my parcel?")
    await world.email(agent, sender="ada@example.org", body="Hello", subject="Hi")
    await world.notify(agent, "Look", priority="low", scheduled_for=world.now + timedelta(seconds=1))
    await world.advance(seconds=4)
    assert [call.question for call in agent.pending] == ["May I?"]
    assert agent.wakes >= 1 and agent.runs[0].outcome == "slept"
    assert world.now - agent.runs[0].started_at < timedelta(minutes=1)
    assert [one.body for one in agent.sent] == ["Soon."]
    assert (agent.documents, agent.children) == ({"/memories/core.md": "tea"}, [])
    wakes = agent.wakes
    await world.decide(agent, answer="Yes")
    with pytest.raises(LookupError):
        await world.decide(agent)
    await world.advance(seconds=3)
    assert (agent.pending, agent.queue, agent.wakes) == ([], [], wakes + 1)
    parent = agent
    for _ in range(2):
        parent = await world.client.agents.create(name="Child", parent=parent.id, model="builtin/inbox")


async def test_is_skipped_for_its_length(world):
    await world.agent(template="support")
    await world.advance(days=9)


async def test_is_skipped_for_its_crash(world):
    world.crash()


async def test_is_skipped_for_its_function(world):
    await world.agent(run=print)


async def test_fails_for_unknown_template(world):
    await world.agent(template="nobody")
"""

RECORDED = """
from datetime import timedelta

from hostsvc_testing import script


async def test_does_the_same_again(world):
    agent = await world.agent("support", model=script("recorded.yaml"), timezone="Europe/Vienna")
    await world.text(agent, sender="+436601234567", body="Where is my parcel?")
    await world.advance(seconds=5)
    assert [one.body for one in agent.sent] == ["At the depot.", "Soon."]
    [left] = agent.queue
    assert timedelta(days=7) < left.scheduled_for - world.now <= timedelta(days=8)
    assert agent.runs[0].outcome == "slept"
"""
PYTEST = ("-m", "pytest", "-q", "-rs", "--disable-plugin-autoload", "-p", "hostsvc_testing.plugin")


async def python(folder: Path, client: Client, *arguments: str) -> str:
    """Return what Python prints with these arguments."""
    environment = {**os.environ, "HOSTSVC_API_KEY": client.authorization.split()[1]}
    command = (sys.executable, *arguments)
    done = await asyncio.to_thread(
        subprocess.run, command, cwd=folder, env=environment, capture_output=True, text=True
    )
    return done.stdout


async def test_tests_of_agents_run_against_service(
    tmp_path: Path, services: Services, session: ClientSession
) -> None:
    service = await services.start()
    client = await sign_up(session, service.url)
    await client.post("/api/templates/", name="support", default_model="builtin/inbox")
    (tmp_path / "test_agents.py").write_text(TESTS)
    output = await python(tmp_path, client, *PYTEST, f"--hostsvc-url={service.url}")
    assert "1 failed, 1 passed, 3 skipped" in output
    for reason in ("take too long in real time", "needs a world in memory", "not a function"):
        assert reason in output
    assert "needs a template of the service, not 'nobody'" in output
    agents = await client.get("/api/cloud/agents/?include_archived=true")
    assert {each["status"] for each in agents} == {"archived"}


async def test_recorded_model_passes_same_test_in_memory(
    tmp_path: Path, services: Services, session: ClientSession
) -> None:
    def answer(body: Json) -> Says:
        told = next(one["content"] for one in body["messages"] if one["role"] == "user")
        waiting = orjson.loads(next(line for line in told.splitlines() if line.startswith('{"id"')))
        to = {"contact_id": waiting["source_id"]}
        in_days = datetime.now(ZoneInfo("Europe/Vienna")) + timedelta(days=8)  # as a model writes local time
        reminder = {"title": "Ask again", "scheduled_for": in_days.replace(tzinfo=None).isoformat()}
        steps: tuple[list[tuple[str, Json]], ...] = (
            [
                ("send_message", to | {"body": "At the depot."}),
                ("create_notification", reminder),
                ("send_message", to | {"body": "Soon."}),
            ],
            [("clear_notification", {"notification_id": waiting["id"]})],
            [("sleep", {})],
        )
        turn = sum(one["role"] == "assistant" for one in body["messages"])
        return Says(calls=[(tool, orjson.dumps(arguments).decode()) for tool, arguments in steps[turn]])

    (tmp_path / "test_recorded.py").write_text(RECORDED)
    async with open_endpoint() as endpoint, receiving() as gateway:
        endpoint.otherwise = answer
        sections: Json = {"models.real": {"base_url": endpoint.url}, "outbound": {"allow_private": True}}
        service = await services.start(**sections)
        client = await sign_up(session, service.url)
        template = await client.post("/api/templates/", name="support", default_model="real/thinker")
        adapter = await client.post("/api/toolbox/adapters/", name="Gateway")
        tool = {"adapter": adapter["id"], "name": "send", "handler": "channel:sms", "url": gateway.url}
        await client.post("/api/toolbox/tools/", **tool)
        pair = {"template": template["id"], "adapter": adapter["id"], "config": {}}
        await client.post("/api/toolbox/adapter-configs/", **pair)
        output = await python(tmp_path, client, *PYTEST, f"--hostsvc-url={service.url}")
        assert "1 passed" in output, output
        [agent] = await client.get("/api/cloud/agents/", include_archived="true")
        recorded = await python(tmp_path, client, "-m", "hostsvc_testing.record", service.url, agent["id"])
    assert " notification:sms\n- do:\n" in recorded
    (tmp_path / "recorded.yaml").write_text(recorded)
    assert "1 passed" in await python(tmp_path, client, *PYTEST), recorded
