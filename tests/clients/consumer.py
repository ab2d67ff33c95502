"""A project that uses the client, read by mypy strict and pyright (test_types.py), and never run."""

import datetime as dt
from collections.abc import AsyncIterator
from contextlib import aclosing

from hostsvc_client import AsyncHostsvc, Hostsvc, Upload, Webhook
from hostsvc_client.errors import Invalid
from hostsvc_client.harness import current_run
from hostsvc_client.inputs import AgentBody
from hostsvc_client.models import Agent, Event, Outcome, Priority, Run

NOON = dt.datetime(2026, 11, 20, 12, tzinfo=dt.timezone(dt.timedelta(hours=1)))


def show(*values: object) -> None:
    """Stand for what a project does with values."""


def main_job(client: Hostsvc) -> Run:
    body: AgentBody = {"name": "Ada", "model": "builtin/inbox", "tags": ["night"]}
    agent: Agent = client.agents.create(**body)
    other: Agent = client.agents.create(name="Bo", template=agent.template, quiet_hours=None)
    handle = client.agent(other)
    client.notifications.create(agent=agent.id, title="Hello", priority="high")
    client.notifications.create(agent=agent.id, title="Hello", priority=Priority.LOW, scheduled_for=NOON)
    for event in handle.events(since=0, type=["run.*"]):
        follow(event)
    sentence: str = handle.why(at="2026-11-20T03:00")
    outcome: Outcome | None = client.runs.wait(agent.id, handle.run_to_end(seconds=60).id).outcome
    show(sentence, outcome, [each.name for each in client.agents.list(tag=["night"], limit=20)])
    preview = handle.preview(event={"source": "sms", "count": 5}, at=NOON)
    show(preview.then.phase, handle.timeline().bands[0].phase)
    file: Upload = ("note.txt", b"text", "text/plain")
    client.messages.create(agent=agent.id, channel="sms", direction="inbound", from_="+44", files=[file])
    return client.runs.get(agent.id, "run", wait=10)


def follow(event: Event) -> None:
    position: int | None = event.id
    show(position, event.type, event.data["outcome"])


def received(body: bytes, headers: dict[str, str]) -> Webhook:
    return Hostsvc().webhooks.unwrap(body, headers, "whsec_")


async def follow_all(client: AsyncHostsvc) -> AsyncIterator[str]:
    async for agent in client.agents.list():
        try:
            yield await client.agent(agent).why()
        except Invalid as refusal:
            show(refusal.fields, refusal.detail)
    async with aclosing(client.events(since=None, tag="night")) as events:
        async for event in events:
            yield event.type


def work() -> None:
    with current_run() as run:
        run.tool("clear_notification", notification_id="…")
        with run.step("think", "llm") as metadata:
            metadata["tokens"] = 3


def mistakes(client: Hostsvc) -> None:
    client.notifications.create(agent="a", title="Hello", prioritee="high")  # type: ignore[call-arg]
    client.notifications.create(agent="a", title="Hello", priority="urgent")  # type: ignore[arg-type]
    client.notifications.create(title="Hello")  # type: ignore[call-arg]
    client.agents.get("a").name = "Bo"  # type: ignore[misc]
