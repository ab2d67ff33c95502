"""Mixed load of an ordinary tenant, who goes on whatever is answered."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from uuid import uuid4

import aiohttp

from tests.acceptance.client import Client
from tests.attack.target import AGENTS, LOG_IN, NOTIFICATIONS, PASSWORD, Target

WORKERS = 5
AGENTS_EACH = 6
PACE_SECONDS = 0.05
NO_ANSWER = 0
MESSAGES = "/api/defaults/messages/"


@dataclass(slots=True)
class Work:
    """The answers so far by status. The workers make no new request while `goes_on` is not set."""

    statuses: Counter[int] = field(default_factory=Counter)
    goes_on: asyncio.Event = field(default_factory=asyncio.Event)


@asynccontextmanager
async def working(target: Target, seed: int) -> AsyncIterator[Work]:
    """Let the victim's workers call the service while the block lasts."""
    work = Work()
    work.goes_on.set()
    workers = [Worker(target, work, Random(seed + number)) for number in range(WORKERS)]  # noqa: S311
    tasks = [asyncio.create_task(worker.work(), name=f"worker {n}") for n, worker in enumerate(workers)]
    try:
        yield work
        for task in tasks:
            if task.done():
                task.result()  # a worker ends only by an error of this program
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


class Worker:
    """One program of the tenant, with agents of its own."""

    def __init__(self, target: Target, work: Work, random: Random) -> None:
        self._target = target
        self._client: Client = target.victim.key
        self._work = work
        self._random = random
        self._agents: list[str] = []
        self._actions = {
            self._notify: 40,
            self._remind: 10,
            self._read_lists: 15,
            self._run: 8,
            self._send_message: 10,
            self._clear: 10,
            self._log_in: 1,
            self._replace_agent: 2,
            self._read_trace: 4,
        }

    async def work(self) -> None:
        actions, weights = list(self._actions), list(self._actions.values())
        while await self._work.goes_on.wait():
            if len(self._agents) < AGENTS_EACH:
                await self._create_agent()
            else:
                [act] = self._random.choices(actions, weights)
                await act(self._random.choice(self._agents))
            await asyncio.sleep(PACE_SECONDS)

    async def _send(self, method: str, path: str, body: Any = None) -> Any:
        """Return the answer, None for a refusal or no answer."""
        headers = {"Authorization": self._client.authorization}
        try:
            async with self._client.session.request(
                method, self._client.url + path, json=body, headers=headers
            ) as response:
                self._work.statuses[response.status] += 1
                text = await response.read()
                return await response.json() if text and response.status < 300 else None
        except (aiohttp.ClientError, TimeoutError):
            self._work.statuses[NO_ANSWER] += 1
            return None

    async def _create_agent(self) -> None:
        body = {
            "name": "Soak",
            "model": "builtin/inbox",
            "debounce_window_seconds": self._random.randrange(3),
        }
        if answer := await self._send("POST", AGENTS, body):
            self._agents.append(answer["id"])

    async def _notify(self, agent: str) -> None:
        source = self._random.choice(("api", "sms", "email"))
        priority = self._random.choice(("high", "low"))
        body = {
            "agent": agent,
            "title": uuid4().hex,
            "source": source,
            "priority": priority,
            "body": "x" * 500,
        }
        await self._send("POST", NOTIFICATIONS, body)

    async def _remind(self, agent: str) -> None:
        due_at = datetime.now(UTC) + timedelta(seconds=self._random.uniform(1, 20))
        body = {"agent": agent, "title": "Later", "priority": "high", "scheduled_for": due_at.isoformat()}
        await self._send("POST", NOTIFICATIONS, body)

    async def _read_lists(self, agent: str) -> None:
        limit = self._random.choice((1, 50, 200))
        await self._send("GET", f"{NOTIFICATIONS}?agent={agent}&limit={limit}")
        await self._send("GET", f"{AGENTS}?limit={limit}")

    async def _run(self, agent: str) -> None:
        await self._send("POST", f"{AGENTS}{agent}/run/", {})

    async def _send_message(self, agent: str) -> None:
        body = {
            "agent": agent,
            "channel": "email",
            "direction": "inbound",
            "subject": "Soak",
            "body": "x" * 200,
        }
        await self._send("POST", MESSAGES, body)

    async def _clear(self, agent: str) -> None:
        await self._send("POST", f"{NOTIFICATIONS}clear/", {"agent": agent})

    async def _log_in(self, agent: str) -> None:
        await self._send("POST", LOG_IN, {"email": self._target.victim.email, "password": PASSWORD})

    async def _replace_agent(self, agent: str) -> None:
        self._agents.remove(agent)
        await self._send("DELETE", f"{AGENTS}{agent}/")

    async def _read_trace(self, agent: str) -> None:
        runs = await self._send("GET", f"{AGENTS}{agent}/runs/?limit=1")
        if runs:
            await self._send("GET", f"/api/tracing/traces/{runs[0]['trace']}/")
