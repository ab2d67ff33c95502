"""Tests of agents by the plugin `hostsvc_testing` run against a whole service, in real time."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from aiohttp import ClientSession

from tests.acceptance.client import sign_up
from tests.acceptance.services import Services

TESTS = """
from datetime import timedelta

import pytest


async def test_passes(world):
    agent = await world.agent(template="support", timezone="Europe/Vienna")
    path = f"/api/cloud/agents/{agent.id}/tools/ask_person/"
    await world._ask("POST", path, question="May I?")
    sent = {"channel": "sms", "direction": "outbound", "status": "sent", "body": "Soon."}
    await world._ask("POST", "/api/defaults/messages/", agent=agent.id, **sent)
    await world.text(agent, sender="+436601234567", body="Where is my parcel?")
    await world.email(agent, sender="ada@example.org", body="Hello", subject="Hi")
    await world.notify(agent, "Look", priority="low", scheduled_for=world.now + timedelta(seconds=1))
    await world.advance(seconds=4)
    assert [call.question for call in agent.pending] == ["May I?"]
    assert agent.wakes >= 1 and agent.runs[0].outcome == "slept"
    assert world.now - agent.runs[0].started_at < timedelta(minutes=1)
    assert [one.body for one in agent.sent] == ["Soon."]
    wakes = agent.wakes
    await world.decide(agent, answer="Yes")
    with pytest.raises(LookupError):
        await world.decide(agent)
    await world.advance(seconds=3)
    assert (agent.pending, agent.queue, agent.wakes) == ([], [], wakes + 1)


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


async def test_tests_of_agents_run_against_service(
    tmp_path: Path, services: Services, session: ClientSession
) -> None:
    service = await services.start()
    client = await sign_up(session, service.url)
    await client.post("/api/templates/", name="support", default_model="builtin/inbox")
    (tmp_path / "test_agents.py").write_text(TESTS)
    command = (sys.executable, "-m", "pytest", "-q", "-rs", "--disable-plugin-autoload")
    options = ("-p", "hostsvc_testing.plugin", f"--hostsvc-url={service.url}")
    environment = {**os.environ, "HOSTSVC_API_KEY": client.authorization.split()[1]}
    done = await asyncio.to_thread(
        subprocess.run, (*command, *options), cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert "1 failed, 1 passed, 3 skipped" in done.stdout, done.stdout
    for reason in ("take too long in real time", "needs a world in memory", "not <built-in function print>"):
        assert reason in done.stdout
    assert "needs a template of the service, not 'nobody'" in done.stdout
    agents = await client.get("/api/cloud/agents/?include_archived=true")
    assert {each["status"] for each in agents} == {"archived"}
