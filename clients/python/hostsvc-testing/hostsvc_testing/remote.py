"""The same tests against a service that runs, in real time and over its API."""

import asyncio
import os
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, NoReturn

import aiohttp
import orjson
import pytest

from hostsvc_testing.world import UNDECIDED

MAX_SECONDS = 600.0  # that a test may let pass
AGENTS, DEFAULTS = "/api/cloud/agents/", "/api/defaults"
LISTS = {
    "sent": "messages/?direction=outbound&status=sent",
    "queue": "notifications/?cleared=false",
    "pending": "approvals/?state=pending",
}
TIMES = ("_at", "_for", "_until")  # how the names of fields end that hold times


class RemoteWorld:
    """A world that is real. Agents have the models of their templates, whatever a test scripts."""

    def __init__(self, url: str) -> None:
        if not (key := os.environ.get("HOSTSVC_API_KEY")):
            pytest.fail("--hostsvc-url needs an API key of the service in HOSTSVC_API_KEY")
        self._url, self._headers = url, {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        self._agents: list[SimpleNamespace] = []

    def run(self, test: Coroutine[Any, Any, object]) -> None:
        asyncio.run(self._run(test))

    @property
    def now(self) -> datetime:
        return datetime.now(UTC)

    async def agent(self, template: str = "", model: Any = None, run: Any = None, **fields: Any) -> Any:
        known = {each["name"]: each["id"] for each in await self.ask("GET", "/api/templates/")}
        if run is not None or template not in known:
            refuse = pytest.fail if template and run is None else pytest.skip
            refuse(f"with --hostsvc-url, an agent needs a template of the service, not {template or run!r}")
        configs = await self.ask("GET", f"/api/toolbox/adapter-configs/?template={known[template]}")
        plain = {"name": template, "adapters": [each["adapter"] for each in configs]}
        made = await self.ask("POST", AGENTS, template=known[template], **(plain | fields))
        self._agents.append(SimpleNamespace(id=made["id"], sent=[], runs=[], wakes=0, queue=[], pending=[]))
        return self._agents[-1]

    async def text(self, agent: Any, sender: str, body: str, subject: str = "", channel: str = "sms") -> None:
        about = {"from": sender, "channel": channel, "direction": "inbound", "subject": subject}
        await self.ask("POST", f"{DEFAULTS}/messages/", agent=agent.id, body=body, **about)

    async def email(self, agent: Any, sender: str, body: str, subject: str = "") -> None:
        await self.text(agent, sender, body, subject, "email")

    async def notify(self, agent: Any, title: str, body: str = "", **fields: Any) -> None:
        new = {"agent": agent.id, "title": title, "body": body, "priority": "high", **fields}
        await self.ask("POST", f"{DEFAULTS}/notifications/", **new)

    async def decide(self, agent: Any, approve: bool = True, **answer: Any) -> None:
        if not agent.pending:
            raise LookupError(UNDECIDED)
        path = f"{DEFAULTS}/approvals/{agent.pending.pop(0).id}/decide/"
        await self.ask("POST", path, approve=approve, **answer)

    async def advance(self, **by: float) -> None:
        """Wait, then read what the agents have done."""
        seconds = timedelta(**by).total_seconds()
        if seconds > MAX_SECONDS:
            pytest.skip(f"{by} take too long in real time: at most {MAX_SECONDS:g} seconds")
        await asyncio.sleep(seconds)
        for each in self._agents:
            each.runs = await self._list(f"{AGENTS}{each.id}/runs/")
            each.wakes = len(each.runs)
            for name, path in LISTS.items():
                setattr(each, name, await self._list(f"{DEFAULTS}/{path}&agent={each.id}"))

    def __getattr__(self, name: str) -> NoReturn:
        pytest.skip(f"world.{name} needs a world in memory, without --hostsvc-url")

    async def _run(self, test: Coroutine[Any, Any, object]) -> None:
        async with aiohttp.ClientSession(self._url, headers=self._headers) as self._http:
            try:
                await test
            finally:  # they would live on, and cost
                for each in self._agents:
                    await self.ask("PATCH", f"{AGENTS}{each.id}/", status="archived")

    async def _list(self, path: str) -> list[SimpleNamespace]:
        """Return the rows of a list, the oldest first."""
        return [_row(row) for row in reversed(await self.ask("GET", path))]

    async def ask(self, method: str, path: str, **body: Any) -> Any:
        data = orjson.dumps(body) if body else None
        async with self._http.request(method, path, data=data) as answer:
            if not answer.ok:
                pytest.fail(f"{method} {path} answered {answer.status}: {await answer.text()}")
            return await answer.json()


def _row(fields: dict[str, Any]) -> SimpleNamespace:
    times = {name: text for name, text in fields.items() if text and name.endswith(TIMES)}
    return SimpleNamespace(**fields | {name: datetime.fromisoformat(text) for name, text in times.items()})
