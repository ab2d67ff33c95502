"""Every list of the storage is read in chunks that are bounded in bytes."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from asyncpg import Record

from storage.agents.filters import AgentFilters, AgentSort, SortedPage
from storage.agents.secrets import Secret, SecretFilters
from storage.approval_grants import insert_grant
from storage.channels.contacts import ContactFilters
from storage.channels.documents import Document, DocumentFilters
from storage.channels.messages import MessageFilters
from storage.channels.projects import ProjectFilters
from storage.delivery.outbox import DeliveryFilters
from storage.history.runs import RunFilters
from storage.history.trace_model import Trace
from storage.history.traces import TraceFilters
from storage.history.transcripts import TranscriptFilters, TranscriptTurn, TurnKind
from storage.ids import new_id
from storage.model import Agent, Notification, Role
from storage.notifications.notifications import NotificationFilters
from storage.postgres.json_values import to_json
from storage.postgres.paging import CHUNK_BYTES, Chunk, Page
from storage.postgres.pool import Pool
from storage.postgres.query import ALWAYS
from storage.storage import Storage
from storage.toolbox import AdapterConfig
from supervisors.clock import SystemClock
from tests.storage.channels.resources import contact, document, message, project
from tests.storage.factories import (
    HOUR,
    NOW,
    adapter,
    api_key,
    approval_grant,
    hook,
    new_notification,
    open_invite,
    parked_call,
    schedule,
    stored_agent,
    stored_member,
    template,
    tool,
    webhook,
)
from tests.storage.listed import listed_page

LONG = "x" * (CHUNK_BYTES * 2 // 3)  # one of them fits a chunk; they are short on the disk
ENOUGH = 100 * CHUNK_BYTES

INSERT_RUN = """
INSERT INTO run (id, agent_id, organization_id, wake_reason, started_at, ended_at, outcome, error)
VALUES ($1, $2, $3, 'sleep_elapsed', $4, $4, 'failed', $5)
"""
INSERT_DELIVERY = """
INSERT INTO webhook_delivery (
    id, organization_id, agent_id, template_id, url, payload, created_at, next_attempt_at)
VALUES ($1, $2, $3, $1, 'https://example.org', $4, $5, $5)
"""


INSERT_AUDITED = "INSERT INTO event (at, type, organization_id, data) VALUES ($1, 'audit', $2, $3)"


@dataclass
class Lists:
    """Stores rows with a long column, and lists them; a method of each name for each list of `Storage`."""

    storage: Storage
    pool: Pool
    agent: Agent

    def __post_init__(self) -> None:
        self.owner = self.agent.organization_id
        self.owners = (self.owner,)

    async def organizations(self, page: Page) -> Chunk[Any]:
        rows = await self.pool.fetch("SELECT id FROM organization")
        return await self.storage.organizations.list_page([row["id"] for row in rows], page)

    async def memberships(self, page: Page) -> Chunk[Any]:
        return await self.storage.memberships.list_page(self.owners, page)

    async def invites(self, page: Page) -> Chunk[Any]:
        return await self.storage.invites.list_page(self.owners, page)

    async def audit_log(self, page: Page) -> Chunk[Any]:
        only = {"resource": "long", "resource_id": None, "action": None, "actor": None}
        return await self.storage.audit_log.list_page(self.owners, only, ALWAYS, page)

    async def api_keys(self, page: Page) -> Chunk[Any]:
        return await self.storage.api_keys.list_page(self.owners, page)

    async def templates(self, page: Page) -> Chunk[Any]:
        return await self.storage.templates.list_page(self.owners, page)

    async def webhooks(self, page: Page) -> Chunk[Any]:
        return await self.storage.webhooks.list_page(self.owners, page)

    async def hooks(self, page: Page) -> Chunk[Any]:
        return await self.storage.hooks.list_page(self.owners, page)

    async def secrets(self, page: Page) -> Chunk[Any]:
        return await self.storage.secrets.list_page(SecretFilters(self.owners), page)

    async def adapters(self, page: Page) -> Chunk[Any]:
        return await self.storage.adapters.list_page(self.owners, None, page)

    async def tools(self, page: Page) -> Chunk[Any]:
        return await self.storage.tools.list_page(self.owners, None, page)

    async def adapter_configs(self, page: Page) -> Chunk[Any]:
        return await self.storage.adapter_configs.list_page(self.owners, None, None, page)

    async def outbox(self, page: Page) -> Chunk[Any]:
        return await self.storage.outbox.list_page(DeliveryFilters(self.owners), page)

    async def agents(self, page: Page) -> Chunk[Any]:
        return await listed_page(self.storage.agents, Agent, AgentFilters(self.owners), page)

    async def sorted_agents(self, page: Page) -> Chunk[Any]:
        filters, by_name = AgentFilters(self.owners), AgentSort.NAME
        skipped = SortedPage(NOW, limit=max(page.offset, 1))
        first = await self.storage.sorted_agents.list_page(filters, by_name, skipped)
        after = first[-1].position if page.offset else None
        sorted_page = SortedPage(NOW, after, page.limit, page.max_bytes)
        return await self.storage.sorted_agents.list_page(filters, by_name, sorted_page)

    async def notifications(self, page: Page) -> Chunk[Any]:
        filters = NotificationFilters(self.owners)
        return await listed_page(self.storage.notifications, Notification, filters, page)

    async def parked_calls(self, page: Page) -> Chunk[Any]:
        return await self.storage.parked_calls.list_page(self.owners, page)

    async def approval_grants(self, page: Page) -> Chunk[Any]:
        return await self.storage.approval_grants.list_page(self.owners, page)

    async def schedules(self, page: Page) -> Chunk[Any]:
        return await self.storage.schedules.list_page(self.owners, page)

    async def contacts(self, page: Page) -> Chunk[Any]:
        return await self.storage.contacts.list_page(ContactFilters(self.owners), page)

    async def messages(self, page: Page) -> Chunk[Any]:
        return await self.storage.messages.list_page(MessageFilters(self.owners), page)

    async def documents(self, page: Page) -> Chunk[Any]:
        filters = DocumentFilters(self.owners)
        return await listed_page(self.storage.documents, Document, filters, page)

    async def projects(self, page: Page) -> Chunk[Any]:
        return await self.storage.projects.list_page(ProjectFilters(self.owners), page)

    async def runs(self, page: Page) -> Chunk[Any]:
        return await self.storage.runs.list_page(RunFilters(self.owners), page)

    async def transcripts(self, page: Page) -> Chunk[Any]:
        return await self.storage.transcripts.list_page(TranscriptFilters(self.agent.id), page)

    async def traces(self, page: Page) -> Chunk[Any]:
        return await self.storage.traces.list_page(self.owners, TraceFilters(), page)

    async def fill(self, text: str = LONG) -> None:
        """Store a row with this text in each list."""
        storage, owner, scout = self.storage, self.owner, self.agent
        weather, desk = adapter(owner, config_schema={"title": text}), template(owner, system_prompt=text)
        config = AdapterConfig(new_id(), owner, desk.id, weather.id, {"title": text}, NOW, NOW)
        await stored_agent(self.pool, name=text)
        await stored_member(self.pool, owner, Role.MEMBER, name=text)
        await storage.invites.insert(open_invite(owner, email=text))
        await storage.api_keys.insert(api_key(owner, name=text), b"hash")
        await storage.templates.insert(desk)
        await storage.webhooks.insert(webhook(owner, description=text), "x")
        await storage.hooks.insert(hook(owner, body=text))
        await storage.secrets.insert(Secret(new_id(), owner, None, f"{text}{new_id()}", NOW, NOW), "x")
        await storage.adapters.insert(weather)
        look_up = tool(weather.id, parameters={"title": text})
        await storage.tools.insert(look_up)
        call = parked_call(scout, tool_id=look_up.id, arguments=to_json({"text": text}).decode())
        await storage.parked_calls.insert(replace(call, digest=call.id.bytes))
        async with self.pool.transaction() as connection:
            await insert_grant(connection, approval_grant(call, arguments_schema={"title": text}))
        await storage.adapter_configs.insert(config)
        await stored_agent(self.pool, owner, system_prompt=text, tags=(text,))
        await storage.notifications.insert(new_notification(scout.id, body=text), {owner})
        await storage.schedules.insert(schedule(scout, name=str(new_id()), body=text))
        await storage.contacts.insert(contact(scout, metadata={"title": text}))
        await storage.messages.insert(message(scout, body=text))
        await storage.documents.insert(document(scout, content=text))
        await storage.projects.insert(project(scout, description=text))
        await storage.traces.insert(Trace(new_id(), owner, scout.id, "x", NOW, None, "", {"title": text}))
        turn = TranscriptTurn(
            new_id(), scout.id, new_id(), TurnKind.TURN, [text], 1, carried=True, created_at=NOW
        )
        await storage.transcripts.insert(turn)
        await self.pool.execute(INSERT_RUN, new_id(), scout.id, owner, NOW, text)
        await self.pool.execute(INSERT_DELIVERY, new_id(), owner, scout.id, {"type": text}, NOW + HOUR)
        await self.pool.execute(INSERT_AUDITED, NOW, owner, {"resource": "long", "action": "", "title": text})
        await storage.audit_log.chain(await storage.events.get_last_id())
        await self.pool.execute("UPDATE organization SET name = $1", text)


def value_of(row: Any, column: str) -> Any:
    """Return a column of a record or a field of a value; None if it has none of this name."""
    return row.get(column) if isinstance(row, Record) else getattr(row, column, None)


def place_of(row: Any) -> tuple[datetime, UUID]:
    return value_of(row, "created_at") or value_of(row, "started_at"), value_of(row, "id")


async def test_every_list_is_read_in_bounded_chunks(pool: Pool) -> None:
    storage = Storage(pool, on_commit=lambda _: None, sleep=SystemClock().sleep)
    lists = Lists(storage, pool, await stored_agent(pool, system_prompt=LONG))
    await Lists(storage, pool, await stored_agent(pool)).fill("of another organization")
    for _ in range(3):
        await lists.fill()
    names = [
        name
        for name, store in vars(storage).items()
        if hasattr(store, "list_page") or hasattr(store, "list_rows")
    ]
    assert len(names) >= 17

    for name in names:
        read_page: Callable[[Page], Awaitable[Chunk[Any]]] = getattr(lists, name)
        everything = await read_page(Page(max_bytes=ENOUGH))
        first = await read_page(Page())
        beginning = await read_page(Page(max_bytes=0, limit=2, offset=1))

        assert len(everything) >= 3, name
        assert {owner for row in everything if (owner := value_of(row, "organization_id"))} <= {lists.owner}
        if name != "sorted_agents":
            places = [place_of(row) for row in everything]
            assert places == sorted(places, reverse=True), f"{name} are not listed newest first"
        assert not everything.is_cut, name
        assert first == everything[: len(first)], name
        assert len(first) == 1, name
        assert first.is_cut, name
        assert beginning == everything[1:2], name
        assert beginning.is_cut, name
