"""The same tests against a service that runs, in real time and by its client."""

import asyncio
import os
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from hostsvc_client import AsyncHostsvc

from hostsvc_testing.world import UNDECIDED

MAX_SECONDS = 600.0  # that a test may let pass


class RemoteWorld:
    """A world that is real. Agents have the models of their templates, whatever a test scripts."""

    def __init__(self, url: str) -> None:
        if not os.environ.get("HOSTSVC_API_KEY"):
            pytest.fail("--hostsvc-url needs an API key of the service in HOSTSVC_API_KEY")
        self._url = url
        self._agents: list[SimpleNamespace] = []
        self.client: Any  # an AsyncHostsvc, while a test runs

    def run(self, test: Coroutine[Any, Any, object]) -> None:
        asyncio.run(self._run(test))

    @property
    def now(self) -> datetime:
        return datetime.now(UTC)

    async def agent(self, template: str = "", model: Any = None, run: Any = None, **fields: Any) -> Any:
        known = {each.name: each.id async for each in self.client.templates.list()}
        if run is not None or template not in known:
            refuse = pytest.fail if template and run is None else pytest.skip
            given = repr(template) if run is None else "a function"
            refuse(f"with --hostsvc-url, an agent needs a template of the service, not {given}")
        configs = self.client.adapter_configs.list(template=known[template])
        plain = {"name": template, "adapters": [each.adapter async for each in configs]}
        made = await self.client.agents.create(template=known[template], **(plain | fields))
        self._agents.append(SimpleNamespace(id=made.id))
        await self._read(self._agents[-1])
        return self._agents[-1]

    async def text(
        self, agent: Any, sender: str, body: str, subject: str = "", channel: str = "sms", **fields: Any
    ) -> None:
        about = {"from": sender, "channel": channel, "direction": "inbound", "subject": subject}
        await self.client.messages.create(agent=agent.id, body=body, **about, **fields)

    async def email(self, agent: Any, sender: str, body: str, subject: str = "", **fields: Any) -> None:
        await self.text(agent, sender, body, subject, "email", **fields)

    async def notify(self, agent: Any, title: str, body: str = "", **fields: Any) -> None:
        about = {"title": title, "body": body, "priority": "high"}
        await self.client.notifications.create(agent=agent.id, **(about | fields))

    async def decide(self, agent: Any, approve: bool = True, **answer: Any) -> None:
        if not agent.pending:
            raise LookupError(UNDECIDED)
        await self.client.approvals.decide(agent.pending.pop(0).id, approve=approve, **answer)

    async def advance(self, **by: float) -> None:
        """Wait, then read what the agents have done."""
        seconds = timedelta(**by).total_seconds()
        if seconds > MAX_SECONDS:
            pytest.skip(f"{by} take too long in real time: at most {MAX_SECONDS:g} seconds")
        await asyncio.sleep(seconds)
        for each in self._agents:
            await self._read(each)

    def __getattr__(self, name: str) -> NoReturn:
        pytest.skip(f"world.{name} needs a world in memory, without --hostsvc-url")

    async def _read(self, agent: SimpleNamespace) -> None:
        """Read what there is of an agent. Each list has the oldest first."""
        client, own = self.client, {"agent": agent.id}
        lists = {
            "runs": client.runs.list(**own),
            "sent": client.messages.list(direction="outbound", status="sent", **own),
            "queue": client.notifications.list(cleared=False, **own),
            "pending": client.approvals.list(state="pending", **own),
        }
        for name, rows in lists.items():
            setattr(agent, name, [row async for row in rows][::-1])
        agent.wakes = len(agent.runs)
        documents = client.documents.list(**own)
        agent.documents = {each.path or each.title: each.content async for each in documents}
        children = client.agents.list(parent=agent.id)
        agent.children = [SimpleNamespace(id=each.id) async for each in children]
        for child in agent.children:
            await self._read(child)

    async def _run(self, test: Coroutine[Any, Any, object]) -> None:
        async with AsyncHostsvc(self._url) as self.client:
            try:
                await test
            finally:  # they would live on, and cost
                for each in self._agents:
                    await self._archive(each.id)

    async def _archive(self, agent_id: str) -> None:
        """Archive an agent, and then those that it has created, as it creates no more."""
        await self.client.agents.change(agent_id, status="archived")
        async for child in self.client.agents.list(parent=agent_id):
            await self._archive(child.id)
