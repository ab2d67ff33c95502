"""Every read by id reads together with others only rows whose long columns are short."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from storage.agents.agents import RetainedAgent
from storage.agents.secrets import Secret
from storage.approval_grants import ApprovalGrant
from storage.channels.contacts import Contact
from storage.channels.documents import Document
from storage.channels.messages import Message, StoredAttachment
from storage.channels.projects import Project
from storage.delivery.hooks import Hook
from storage.delivery.outbox import WebhookDelivery
from storage.delivery.webhooks import Webhook
from storage.history.trace_model import Span, SpanContent, Trace
from storage.identity.organizations import Invite, Member
from storage.ids import new_id
from storage.model import Agent, ApiKey, Notification, Organization, Run, Template
from storage.notifications.schedules import Schedule
from storage.parked_calls import ParkedCall
from storage.postgres.paging import long_columns
from storage.postgres.pool import Pool
from storage.postgres.shared_reads import SHORT_BYTES, SharedReads
from storage.storage import Storage
from storage.toolbox import Adapter, AdapterConfig, Tool
from supervisors.clock import SystemClock
from tests.storage.factories import new_span, stored_agent
from tests.storage.postgres.explaining_pool import ExplainingPool
from tests.storage.test_bounded_lists import Lists

pytestmark = pytest.mark.own_database

LONG = "x" * (SHORT_BYTES + 1)  # short on the disk
LONG_OF_TYPE: dict[str, Any] = {
    "text": LONG,
    "json": {"title": LONG},
    "_text": [LONG],
    "_uuid": [new_id() for _ in range(1000)],
}

ATTACHMENTS = [{"name": LONG, "content_type": "", "url": "https://example.org"}]

GET_ID = "SELECT id FROM {} LIMIT 1"
GET_COLUMN = "SELECT {1} FROM {0} WHERE id = $1"
UPDATE = "UPDATE {0} SET {1} = $2 WHERE id = $1"
GET_TYPE = "SELECT udt_name FROM information_schema.columns WHERE table_name = $1 AND column_name = $2"
INSERT_ATTACHMENT = """
INSERT INTO attachment (id, organization_id, agent_id, message_id, name, content_type, size)
SELECT gen_random_uuid(), organization_id, agent_id, id, 'a', 'text/plain', 1 FROM message LIMIT 1
"""
GET_SOME_IDS = "SELECT id FROM {} ORDER BY random() LIMIT $1"
MANY = 2_000
TOGETHER = 12
FEW = 20 * TOGETHER

# Tables that grow to many rows at once, so that PostgreSQL has no statistics of them.
COPY = """
INSERT INTO {0} SELECT (jsonb_populate_record(t, jsonb_build_object('id', gen_random_uuid()))).*
FROM {0} t, generate_series(1, $1) WHERE t.id = (SELECT id FROM {0} LIMIT 1)
"""
COPIED = (
    *("agent", "notification", "contact", "message", "attachment", "project", "run", "trace", "span"),
    *("invite", "template", "adapter", "webhook", "webhook_delivery", "hook"),
)
FILL_STATES = """
INSERT INTO agent_state SELECT (jsonb_populate_record(s, jsonb_build_object('agent_id', a.id))).*
FROM agent_state s, (SELECT id FROM agent LIMIT $1 + 10) a
WHERE s.agent_id = (SELECT agent_id FROM agent_state LIMIT 1)
ON CONFLICT DO NOTHING
"""
FILL_DOCUMENTS = """
INSERT INTO document (id, organization_id, agent_id, title, content, created_at, updated_at)
SELECT gen_random_uuid(), organization_id, agent_id, title, content, created_at, updated_at
FROM (SELECT * FROM document LIMIT 1) d, generate_series(1, $1)
"""
FILL_USERS = """
INSERT INTO user_account (id, email, password_hash, created_at)
SELECT gen_random_uuid(), 'user' || n, '', now() FROM generate_series(1, $1) AS n
"""
FILL_MEMBERSHIPS = """
INSERT INTO membership (id, organization_id, user_id, role, created_at)
SELECT gen_random_uuid(), o.id, u.id, 'member', now()
FROM (SELECT id FROM organization LIMIT 1) o, (SELECT id FROM user_account LIMIT $1) u ON CONFLICT DO NOTHING
"""
FILL_CONFIGS = """
INSERT INTO adapter_config (id, template_id, adapter_id, config, created_at, updated_at)
SELECT gen_random_uuid(), t.id, a.id, '{}', now(), now()
FROM (SELECT id FROM adapter LIMIT 1) a, (SELECT id FROM template LIMIT $1) t ON CONFLICT DO NOTHING
"""
FILLS = (
    *(COPY.format(table) for table in COPIED),
    *(FILL_STATES, FILL_DOCUMENTS, FILL_USERS, FILL_MEMBERSHIPS, FILL_CONFIGS),
)
GROWN = {*COPIED, "document", "membership", "adapter_config"}

SHARE_CONTENT = """
INSERT INTO shared_content (organization_id, digest, content, used_at) VALUES ($1, $2, $3, now())
"""


@dataclass(frozen=True)
class Read:
    """The table of a read, and those of its columns that clients cannot make longer than some 2,000 bytes."""

    table: str
    model: type[Any]
    bounded: str

    def columns(self) -> Iterator[str]:
        """Yield the columns that may be long."""
        bounded = self.bounded.split()
        assert not set(bounded) - set(long_columns(self.model)), "a column that is short in any case"
        return (column for column in long_columns(self.model) if column not in bounded)


READS = {
    "organizations.get": Read("organization", Organization, "name phone_region"),
    "memberships.get": Read("membership", Member, "email name"),
    "invites.get": Read("invite", Invite, "email code_hash"),
    "api_keys.get": Read("api_key", ApiKey, "name prefix"),
    "templates.get": Read(
        "template",
        Template,
        "name default_model harness_git_ref agent_created_webhook_url tool_call_secret content quiet_hours",
    ),
    "secrets.get": Read("secret", Secret, "name"),
    "adapters.get": Read("adapter", Adapter, "name detail_url"),
    "tools.get": Read("tool", Tool, "name url handler detail_url"),
    "adapter_configs.get": Read("adapter_config", AdapterConfig, ""),
    "outbox.get": Read("webhook_delivery", WebhookDelivery, "type url last_error"),
    "webhooks.get": Read("webhook", Webhook, "url description types tag disabled_reason"),
    "hooks.get": Read("hook", Hook, "name header algorithm encoding prefix secret old_secret"),
    "agents.get": Read(
        "agent",
        Agent,
        "template_name parent_name adapters name model timezone email_alias harness_git_ref reasoning_effort"
        " call_voice_id last_wake_reason language quiet_hours",
    ),
    "agents.get_retained": Read("agent", RetainedAgent, "name timezone"),
    "agents.get_organization_id": Read("agent", RetainedAgent, "name timezone"),
    "notifications.get": Read("notification", Notification, ""),
    "schedules.get": Read(
        "schedule",
        Schedule,
        "name created_by agent_timezone agent_name cron timezone last_outcome answer_digest",
    ),
    "parked_calls.get": Read(
        "parked_call",
        ParkedCall,
        # `approval` can be long, but in the table of the tool.
        "tool digest tool_digest decided_by decision_digest result_digest agent_name approval",
    ),
    "approval_grants.get": Read(
        "approval_grant", ApprovalGrant, "tool_digest digest created_by revoked_by agent_name tool"
    ),
    "contacts.get": Read("contact", Contact, "name email phone"),
    "messages.get": Read("message", Message, "address"),
    "attachments.get": Read("attachment", StoredAttachment, "name content_type"),
    "documents.get": Read("document", Document, "title content_type path author"),
    "projects.get": Read("project", Project, "name"),
    "runs.get": Read("run", Run, "wake_reason"),
    "traces.get": Read("trace", Trace, "name"),
    "traces.get_span": Read("span", Span, "name span_type"),  # its metadata has a test of its own
}


@pytest.fixture
async def storage(pool: Pool) -> Storage:
    return Storage(pool, on_commit=lambda _: None, sleep=SystemClock().sleep)


def reads_of(storage: Storage) -> dict[str, SharedReads[Any]]:
    return {
        f"{name}.{attribute}": read
        for name, store in vars(storage).items()
        for attribute, read in getattr(store, "__dict__", {}).items()
        if isinstance(read, SharedReads)
    }


async def stored_resources(storage: Storage, scout: Agent) -> None:
    """Store a short row in each table."""
    await Lists(storage, storage.pool, scout).fill("x")
    await storage.pool.execute(INSERT_ATTACHMENT)
    [trace] = await storage.pool.fetch("SELECT id FROM trace")
    await storage.traces.insert_spans([new_span(trace["id"])])


async def test_every_shared_read_leaves_out_long_rows(pool: Pool, storage: Storage) -> None:
    await stored_resources(storage, await stored_agent(pool))

    for name, get in reads_of(storage).items():
        read = READS[name]
        row_id = await pool.fetchval(GET_ID.format(read.table))
        for column in read.columns():
            before = await pool.fetchval(GET_COLUMN.format(read.table, column), row_id)
            update = UPDATE.format(read.table, column)
            kind = await pool.fetchval(GET_TYPE, read.table, column)
            long = ATTACHMENTS if column == "attachments" else LONG_OF_TYPE[kind]
            await pool.execute(update, row_id, long)
            assert await get.get_short(row_id) is None, (name, column)
            assert await get.get_alone(row_id) == await get(row_id) is not None, (name, column)
            await pool.execute(update, row_id, before)
        short = await get.get_short(row_id)
        assert short == await get(row_id) is not None, name


async def test_table_names_every_shared_read(storage: Storage) -> None:
    assert reads_of(storage).keys() == READS.keys()


async def test_short_reads_find_rows_by_id_in_grown_tables(pool: Pool) -> None:
    explaining = ExplainingPool(pool)
    storage = Storage(explaining, on_commit=lambda _: None, sleep=SystemClock().sleep)
    await stored_resources(storage, await stored_agent(pool))
    for fill in FILLS:
        await pool.execute(fill, MANY)

    for name, get in reads_of(storage).items():
        if READS[name].table in GROWN:
            rows = await pool.fetch(GET_SOME_IDS.format(READS[name].table), TOGETHER)
            explaining.rows_touched.clear()
            found = await asyncio.gather(*(get.get_short(row["id"]) for row in rows))
            assert None not in found, name
            assert max(explaining.rows_touched.values()) <= FEW, name


@pytest.mark.parametrize(
    ("metadata", "content"),
    [
        ({"a": LONG}, SpanContent("{}")),
        ({}, SpanContent(f'{{"a":"{LONG}"}}')),
        ({}, SpanContent("{}", instructions=b"long")),
        ({}, SpanContent("{}", tools=b"long")),
    ],
    ids=["metadata", "content", "instructions", "tools"],
)
async def test_span_with_long_metadata_is_read_alone(
    pool: Pool, storage: Storage, metadata: dict[str, Any], content: SpanContent
) -> None:
    scout = await stored_agent(pool)
    await Lists(storage, pool, scout).fill("x")
    await pool.execute(SHARE_CONTENT, scout.organization_id, b"long", [LONG])
    [trace] = await pool.fetch("SELECT id FROM trace")
    long, short = new_span(trace["id"], metadata, content), new_span(trace["id"], {"a": 1})
    await storage.traces.insert_spans([long, short])
    assert await storage.traces.get_span.get_short(long.span.id) is None
    assert await storage.traces.get_span(long.span.id) is not None
    assert await storage.traces.get_span.get_short(short.span.id) is not None
