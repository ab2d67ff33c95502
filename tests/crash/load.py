"""Clients that go on writing whatever happens to the service, and note in the ledger what it acknowledged.

Each writer has agents of its own, so it knows what they should be. A creation that was not answered is sent
again with the same Idempotency-Key until it is; any other write that was not answered stays in doubt, and
nothing more is sent to what it was about.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from uuid import uuid4

import aiohttp

from tests.acceptance.client import POLL_SECONDS, Client, Json, Refused, eventually, moment
from tests.crash.ledger import Ledger, Note, Owned, RunRequested, Stop, Write
from tests.patience import PATIENCE_SECONDS

WRITERS = 6
WINDOWS_SECONDS = (0, 1, 2)  # of the agents of each writer
PACE_SECONDS = 0.005
SPREAD_SECONDS = 3.0  # for an answer of a node that may be frozen; another one is asked then
UNLIMITED_SECONDS = 300.0
AGENTS = "/api/cloud/agents/"
NOTIFICATIONS = "/api/defaults/notifications/"
CONVERSATIONAL = ("email", "sms")
OFFLINE = "builtin/inbox"
# 409: the first request with the same key is still running; 500 is a crash, which the log reports.
UNANSWERED = frozenset({409, 500, 502, 503})


class Unanswered(Exception):
    """There was no answer, or one that leaves the outcome open."""


class Load:
    """The writers, and the addresses of the nodes. They write to the first one that serves, or `spread`.

    The name of a model that ends with a dash is completed, so that each agent has one of its own.
    """

    def __init__(
        self,
        client: Client,
        seed: int,
        models: Sequence[str] = (OFFLINE,),
        spread: Sequence[str] = (),
    ) -> None:
        self.ledger = Ledger()
        self.urls = list(spread) or [client.url]
        self.models = models  # drawn at random for each agent
        self._client = client
        self._spreads = Random(seed) if spread else None  # noqa: S311
        self._timeout = aiohttp.ClientTimeout(SPREAD_SECONDS if spread else UNLIMITED_SECONDS)
        self._writers = [Writer(self, Random(seed * 1000 + number)) for number in range(WRITERS)]  # noqa: S311
        self._enough = asyncio.Event()

    @property
    def client(self) -> Client:
        return self._client.at(self.urls[0])

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator[None]:
        """Let the writers write while the block lasts, then wait for their unanswered requests."""
        self._enough.clear()
        tasks = [asyncio.create_task(writer.write(self._enough)) for writer in self._writers]
        try:
            yield
            self._enough.set()
            async with asyncio.timeout(PATIENCE_SECONDS):
                await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def acknowledged(self, more: int) -> None:
        """Return when this many more writes have been acknowledged."""
        target = self.ledger.acknowledged + more

        async def look() -> bool | None:
            return self.ledger.acknowledged >= target or None

        await eventually(look, f"{more} more writes to be acknowledged")

    async def refused(self, more: int) -> None:
        """Return when this many more writes have gone without an acknowledgement."""
        target = self.ledger.unanswered + more

        async def look() -> bool | None:
            return self.ledger.unanswered >= target or None

        await eventually(look, f"{more} more writes to be refused")

    async def find_service(self) -> None:
        """Put the address of a ready instance first."""

        async def look() -> bool | None:
            for url in self.urls:
                with suppress(aiohttp.ClientError, Refused):
                    if (await self._client.at(url).get("/readyz"))["state"] == "ready":
                        self.urls.sort(key=lambda each: each != url)
                        return True
            return None

        await eventually(look, f"one of {self.urls} to be ready")

    async def send(self, method: str, path: str, body: Mapping[str, Any], key: str) -> Json:
        """Return an acknowledged write's answer. Raise Unanswered, or AssertionError for other answers."""
        client = self.client.at(self._spreads.choice(self.urls)) if self._spreads else self.client
        headers = {"Authorization": client.authorization, "Idempotency-Key": key}
        try:
            async with client.session.request(
                method, client.url + path, json=body, headers=headers, timeout=self._timeout
            ) as response:
                answer: Json = {} if response.status == 204 else await response.json()
        except (aiohttp.ClientError, TimeoutError) as error:
            self._turn_elsewhere()
            raise Unanswered(str(error)) from error
        if response.status in UNANSWERED:
            self._turn_elsewhere()
            raise Unanswered(str(answer))
        assert response.status < 300, f"{method} {path} {body}: {response.status} {answer}"
        self.ledger.acknowledged += 1
        return answer

    def _turn_elsewhere(self) -> None:
        self.ledger.unanswered += 1
        self.urls.append(self.urls.pop(0))


class Writer:
    """One client and the agents that only it writes to."""

    def __init__(self, load: Load, random: Random) -> None:
        self._load = load
        self._random = random
        self._agents: list[Owned] = []
        self._actions = {
            self._notify: 46,
            self._remind: 10,
            self._change_note: 14,
            self._clear: 5,
            self._delete_note: 4,
            self._ask_for_run: 8,
            self._stop: 3,
            self._rename: 4,
            self._set_wake_time: 3,
            self._replace_agent: 3,
        }

    async def write(self, enough: asyncio.Event) -> None:
        """Write until the event is set."""
        while len(self._agents) < len(WINDOWS_SECONDS):
            await self._create_agent(WINDOWS_SECONDS[len(self._agents)])
        actions, weights = list(self._actions), list(self._actions.values())
        while not enough.is_set():
            [act] = self._random.choices(actions, weights)
            await act(self._random.choice(self._agents))
            await asyncio.sleep(PACE_SECONDS)

    async def _send_until_answered(self, path: str, **body: Any) -> Json:
        key = uuid4().hex
        while True:
            try:
                return await self._load.send("POST", path, body, key)
            except Unanswered:
                await asyncio.sleep(POLL_SECONDS)

    async def _send_once(self, subject: Note | Owned, method: str, path: str, **body: Any) -> bool:
        """Return whether the write was acknowledged; if not, its subject is in doubt."""
        write = Write(datetime.now(UTC))
        if isinstance(subject, Note):
            subject.writes.append(write)
        try:
            await self._load.send(method, path, body, uuid4().hex)
        except Unanswered:
            subject.in_doubt = method
            return False
        write.answered_at = datetime.now(UTC)
        return True

    async def _create_agent(self, window_seconds: int) -> None:
        name, model = f"Clerk {uuid4().hex[:8]}", self._random.choice(self._load.models)
        model += uuid4().hex if model.endswith("-") else ""
        body = {"name": name, "model": model, "debounce_window_seconds": window_seconds}
        answer = await self._send_until_answered(AGENTS, **body)
        agent = Owned(answer["id"], name, window_seconds)
        self._agents.append(agent)
        self._load.ledger.agents[agent.id] = agent

    async def _notify(self, agent: Owned) -> None:
        sources = (*CONVERSATIONAL * 3, "api") if agent.window_seconds else ("api",)
        priority = self._random.choices(("high", "low"), (4, 1))[0]
        await self._post_note(agent, source=self._random.choice(sources), priority=priority)

    async def _remind(self, agent: Owned) -> None:
        at = self._soon()
        note = await self._post_note(agent, source="portal", priority="high", scheduled_for=at.isoformat())
        note.schedules.append(at)

    async def _post_note(self, agent: Owned, **fields: Any) -> Note:
        title = uuid4().hex
        answer = await self._send_until_answered(NOTIFICATIONS, agent=agent.id, title=title, **fields)
        note = Note(
            id=answer["id"],
            agent=agent.id,
            title=title,
            source=fields["source"],
            priority=fields["priority"],
            created_at=moment(answer["created_at"]),
        )
        agent.notes.append(note)
        return note

    async def _change_note(self, agent: Owned) -> None:
        note = self._recent(agent)
        if note is None:
            return
        changes: Json = {"title": uuid4().hex, "priority": self._random.choice(("high", "high", "low"))}
        if note.is_cleared:
            changes["cleared"] = False
        if note.schedules:
            at = self._soon()
            note.schedules.append(at)
            changes["scheduled_for"] = at.isoformat()
        note.is_changed = True
        if await self._send_once(note, "PATCH", f"{NOTIFICATIONS}{note.id}/", **changes):
            note.title, note.priority, note.is_cleared = changes["title"], changes["priority"], False

    async def _clear(self, agent: Owned) -> None:
        note = self._recent(agent)
        if note is None:
            return
        path = f"{NOTIFICATIONS}clear/"
        note.is_cleared = await self._send_once(note, "POST", path, agent=agent.id, ids=[note.id])

    async def _delete_note(self, agent: Owned) -> None:
        note = self._recent(agent)
        if note is not None:
            note.is_deleted = await self._send_once(note, "DELETE", f"{NOTIFICATIONS}{note.id}/")

    async def _ask_for_run(self, agent: Owned) -> None:
        sent_at = datetime.now(UTC)
        answer = await self._send_until_answered(f"{AGENTS}{agent.id}/run/")
        agent.runs_asked.append(RunRequested(sent_at, answer["status"], answer["run"]))

    async def _stop(self, agent: Owned) -> None:
        sent_at = datetime.now(UTC)
        try:
            answer = await self._load.send("POST", f"{AGENTS}{agent.id}/stop/", {}, uuid4().hex)
        except Unanswered:
            agent.stops.append(Stop(sent_at, None))
        else:
            agent.stops.append(Stop(sent_at, datetime.now(UTC), answer["status"]))

    async def _rename(self, agent: Owned) -> None:
        if not agent.in_doubt:
            name = f"Clerk {uuid4().hex[:8]}"
            if await self._send_once(agent, "PATCH", f"{AGENTS}{agent.id}/", name=name):
                agent.name = name

    async def _set_wake_time(self, agent: Owned) -> None:
        if not agent.in_doubt:
            agent.wake_times.append(self._soon())
            until = agent.wake_times[-1].isoformat()
            await self._send_once(agent, "PATCH", f"{AGENTS}{agent.id}/", sleep_until=until)

    async def _replace_agent(self, agent: Owned) -> None:
        """Delete the agent in any phase, and create another one."""
        self._agents.remove(agent)
        agent.is_deleted = await self._send_once(agent, "DELETE", f"{AGENTS}{agent.id}/")
        agent.deleted_at = datetime.now(UTC)
        await self._create_agent(agent.window_seconds)

    def _recent(self, agent: Owned) -> Note | None:
        """Return one of the agent's latest notes without an unanswered write; None if there is none."""
        known = [note for note in agent.notes[-8:] if note.is_settled]
        return self._random.choice(known) if known else None

    def _soon(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self._random.uniform(0.3, 2.5))
