"""Filters of lists read the rows that match along an index, and few others.

Among many rows few match, or none. PostgreSQL has statistics, or none yet: the database has just grown.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from storage.agents.actions import AgentAction, AgentSelections, Selection
from storage.agents.agents import Agents
from storage.agents.filters import AgentFilters, AgentSort, SortedAgents, SortedPage
from storage.agents.secrets import SecretFilters, Secrets
from storage.agents.state import AgentStates
from storage.agents.templates import Templates
from storage.channels import documents
from storage.channels.contacts import ContactFilters, Contacts
from storage.channels.documents import DocumentFilters, Documents, SearchScope
from storage.channels.memories import Memories
from storage.channels.messages import MessageFilters, Messages, MessageStatus
from storage.delivery.outbox import DeliveryFilters, Outbox
from storage.history.runs import RunFilters, Runs
from storage.history.traces import TraceFilters, Traces
from storage.history.transcripts import TranscriptFilters, Transcripts
from storage.history.usage import UsageByDay, UsageScope
from storage.model import Agent, Outcome
from storage.notifications.notifications import NotificationFilters, Notifications
from storage.postgres.paging import Page
from storage.postgres.pool import Pool
from storage.postgres.query import Period
from tests.storage.factories import HOUR, NOW, stored_agent, template
from tests.storage.postgres.explaining_pool import ExplainingPool

pytestmark = pytest.mark.own_database

MANY = 5_000
FEW = 20  # more than twice the rows that match
PAGE = Page(limit=10)

FILL_RUNS = """
INSERT INTO run (id, agent_id, organization_id, wake_reason, started_at, ended_at, outcome)
SELECT gen_random_uuid(), id, organization_id, 'run_requested', $2::timestamptz - n * interval '1 s', $2,
       'slept'
FROM agent, generate_series(1, $1::integer) AS n
"""
FAIL_RUN = """
UPDATE run SET outcome = 'failed', wake_reason = 'reminder' WHERE id IN (
    SELECT id FROM run ORDER BY started_at LIMIT 1)
"""
FILL_CONTACTS = """
INSERT INTO contact (id, organization_id, agent_id, email, phone, created_at)
SELECT gen_random_uuid(), organization_id, id, n || '@Example.org', '+43 (1) ' || n, $2
FROM agent, generate_series(1, $1::integer) AS n
"""
FILL_CONTACTS_OF_OTHERS = """
WITH other AS (
    INSERT INTO agent (id, organization_id, name, model, created_at)
    SELECT gen_random_uuid(), organization_id, 'Other', 'm', $2 FROM agent RETURNING id, organization_id)
INSERT INTO contact (id, organization_id, agent_id, email, phone, created_at)
SELECT gen_random_uuid(), organization_id, id, 'hidden' || n || '@example.org', '+43 2 ' || n, $2
FROM other, generate_series(1, $1::integer) AS n
"""
SHARE_CONTACT = """
INSERT INTO contact (id, organization_id, email, created_at)
SELECT gen_random_uuid(), organization_id, 'shared@example.org', created_at FROM agent LIMIT 1
"""
FILL_OWN_DOCUMENTS = """
INSERT INTO document (id, organization_id, agent_id, title, content, content_type, created_at, updated_at)
SELECT gen_random_uuid(), organization_id, id, 'Own', '', 'text/plain', $2, $2
FROM agent, generate_series(1, $1::integer) AS n
"""
FILL_DOCUMENTS_OF_OTHERS = """
WITH other AS (
    INSERT INTO agent (id, organization_id, name, model, created_at)
    SELECT gen_random_uuid(), organization_id, 'Other', 'm', $2 FROM agent RETURNING id, organization_id)
INSERT INTO document (id, organization_id, agent_id, title, content, content_type, created_at, updated_at)
SELECT gen_random_uuid(), organization_id, id, 'Hidden', '', 'text/plain', $2, $2
FROM other, generate_series(1, $1::integer) AS n
"""
SHARE_DOCUMENT = """
INSERT INTO document (id, organization_id, title, content, content_type, created_at, updated_at)
SELECT gen_random_uuid(), organization_id, 'Shared', '', 'text/plain', '2200-01-01', created_at
FROM agent LIMIT 1
"""
FILL_MESSAGES = """
WITH own AS (
    INSERT INTO contact (id, organization_id, agent_id, created_at)
    SELECT gen_random_uuid(), organization_id, id, $2 FROM agent, generate_series(1, $1::integer)
    RETURNING id, organization_id, agent_id)
INSERT INTO message (id, organization_id, agent_id, contact_id, channel, direction, status, created_at)
SELECT gen_random_uuid(), organization_id, agent_id, id, 'sms', 'inbound', 'received',
       $2::timestamptz - n * interval '1 s'
FROM own, generate_series(1, 3) AS n
"""
FAIL_MESSAGE = """
UPDATE message SET status = 'failed' WHERE id IN (SELECT id FROM message ORDER BY created_at LIMIT 1)
"""
FILL_QUEUE = """
INSERT INTO notification (organization_id, agent_id, title, created_at, scheduled_for)
SELECT organization_id, id, 'n', $2::timestamptz - n * interval '1 s', CASE WHEN n = $1 THEN $2 END
FROM agent, generate_series(1, $1::integer) AS n
"""
FILL_TRACES = """
INSERT INTO trace (id, organization_id, agent_id, name, started_at)
SELECT gen_random_uuid(), organization_id, id, 'x', $2::timestamptz - n * interval '1 s'
FROM agent, generate_series(1, $1::integer) AS n
"""
FILL_TRANSCRIPTS = """
INSERT INTO transcript_turn (id, agent_id, run_id, kind, messages, tokens, carried, created_at)
SELECT gen_random_uuid(), id, id, 'turn', '[]', 1, n % 4000 = 0, $2::timestamptz - n * interval '1 s'
FROM agent, generate_series(1, 4 * $1::integer) AS n
"""
FILL_USAGE = """
INSERT INTO usage_record (
    id, organization_id, agent_id, model, input_tokens, output_tokens, priced, occurred_at)
SELECT gen_random_uuid(), organization_id, CASE WHEN n > $1 - 10 THEN id ELSE organization_id END, 'm', 1, 1,
       true, $2::timestamptz - n * interval '1 s'
FROM agent, generate_series(1, $1::integer) AS n
"""
FILL_AGENTS = """
WITH copy AS (
    INSERT INTO agent (id, organization_id, name, model, created_at)
    SELECT gen_random_uuid(), organization_id, 'Agent ' || n, 'm', $2
    FROM agent, generate_series(1, $1::integer) AS n RETURNING id
)
INSERT INTO agent_state (agent_id) SELECT id FROM copy
"""


FILL_SPENDING = """
INSERT INTO spending (owner_id, day, cost_usd)
SELECT id, ($2::timestamptz AT TIME ZONE 'UTC')::date - (name <> 'Agent ' || $1::integer)::integer, 1
FROM agent
"""
FILL_WORK = """
INSERT INTO notification (organization_id, agent_id, title, priority, created_at, activated_at)
SELECT organization_id, id, 'n', 'high', $2, $2 FROM agent WHERE name = 'Agent ' || $1::integer
"""
FILL_DUE = """
UPDATE agent_state SET next_due_at = created_at + interval '1 s' * hashtext(name)
FROM agent WHERE id = agent_id
"""
FILL_DOCUMENTS = """
INSERT INTO document (id, organization_id, agent_id, title, content, path, created_at, updated_at, deleted_at)
SELECT gen_random_uuid(), organization_id, id, 'Note ' || n, 'common word' || n, '/memories/' || n,
       $2::timestamptz - n * interval '1 s', $2, CASE WHEN n = $1 THEN $2 END
FROM agent, generate_series(1, $1::integer) AS n
"""

FILL_SECRETS = """
INSERT INTO secret (id, organization_id, name, value, created_at, updated_at)
SELECT gen_random_uuid(), id, 'S' || n, 'x', $2::timestamptz - n * interval '1 s', $2
FROM organization, generate_series(1, $1::integer) AS n
"""
FILL_DELIVERIES = """
INSERT INTO webhook_delivery (id, organization_id, webhook_id, url, payload, created_at, delivered_at)
SELECT gen_random_uuid(), id, CASE WHEN n > $1 - 2 THEN id ELSE gen_random_uuid() END, 'https://a.example/',
       '{}', $2::timestamptz - n * interval '1 s', $2
FROM organization, generate_series(1, $1::integer) AS n
"""
FILL_TEMPLATE_SECRETS = """
WITH copy AS (
    INSERT INTO template (id, organization_id, name, created_at)
    SELECT gen_random_uuid(), id, 'Desk', $2 FROM organization, generate_series(1, $1::integer) AS n
    RETURNING id, organization_id
)
INSERT INTO secret (id, organization_id, template_id, name, value, created_at, updated_at)
SELECT id, organization_id, id, 'S', 'x', $2, $2 FROM copy
"""


@pytest.fixture(params=["with statistics", "without statistics"])
async def explain(pool: Pool, request: pytest.FixtureRequest) -> Callable[[str], Awaitable[ExplainingPool]]:
    """Return a function that fills a table by a statement, and returns a pool that explains."""

    async def fill(*statements: str) -> ExplainingPool:
        for statement in statements:
            arguments = (MANY, NOW) if "$1" in statement else ()
            await pool.execute(statement, *arguments)
        if request.param == "with statistics":
            await pool.execute("ANALYZE")
        return ExplainingPool(pool)

    return fill


# Without them the planner would expect other rows than there are, and rightly read all of so few.
with_statistics = pytest.mark.parametrize("explain", ["with statistics"], indirect=True)


@pytest.fixture
async def scout(pool: Pool) -> Agent:
    return await stored_agent(pool)


def require_few(pool: ExplainingPool) -> None:
    wasteful = {sql: rows for sql, rows in pool.rows_touched.items() if rows > FEW}
    assert not wasteful, f"too many of {MANY} rows were read: {wasteful}"


RUN_FILTERS: list[tuple[dict[str, Any], int]] = [
    ({}, 10),
    ({"outcome": Outcome.FAILED}, 1),
    ({"outcome": Outcome.BUDGET}, 0),
    ({"wake_reasons": ("reminder",)}, 1),
    ({"wake_reasons": ("notification:sms", "notification:api")}, 0),
    ({"outcome": Outcome.SLEPT, "wake_reasons": ("reminder",)}, 0),
    ({"is_active": True}, 0),
    ({"started": Period(end=NOW - HOUR)}, 10),
    ({"started": Period(start=NOW)}, 0),
]


async def test_filtered_runs_are_read_along_an_index(explain: Any, scout: Agent) -> None:
    pool = await explain(FILL_RUNS, FAIL_RUN)
    for owner in (RunFilters((scout.organization_id,)), RunFilters(agent_id=scout.id)):
        for filters, found in RUN_FILTERS:
            named = RunFilters(owner.organization_ids, owner.agent_id, **filters)
            assert len(await Runs(pool).list_page(named, PAGE)) == found, filters
    require_few(pool)


async def test_deliveries_of_a_webhook_are_read_along_an_index(explain: Any, scout: Agent) -> None:
    pool, owners = await explain(FILL_DELIVERIES), (scout.organization_id,)
    for webhook_id, found in ((scout.organization_id, 2), (scout.id, 0)):
        filters = DeliveryFilters(owners, webhook_id=webhook_id)
        assert len(await Outbox(pool).list_page(filters, PAGE)) == found
    require_few(pool)


async def test_contacts_are_found_by_address_along_an_index(explain: Any, scout: Agent) -> None:
    pool = await explain(FILL_CONTACTS)
    for filters in ({"email": "7@EXAMPLE.ORG"}, {"phone": "431700"}, {"created": Period(NOW, NOW + HOUR)}):
        for agent_id in (None, scout.id):
            named = ContactFilters((scout.organization_id,), agent_id, **filters)
            assert len(await Contacts(pool).list_page(named, PAGE)) == (10 if "created" in filters else 1)
    require_few(pool)


async def test_documents_are_found_by_path_and_words_along_an_index(
    explain: Any, scout: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    for constant in ("MANY", "NEWEST", "COMMON"):
        monkeypatch.setattr(documents, constant, FEW // 2)
    pool = await explain(FILL_DOCUMENTS)
    store, owners = Documents(pool), (scout.organization_id,)
    for agent_id in (None, scout.id):
        for path, found in (("/memories/77", 1), ("/memories/x", 0)):
            filters = DocumentFilters(owners, agent_id, path=path)
            assert len(await store.list_rows(filters, PAGE)) == found
        scope = SearchScope(owners, agent_id)
        assert len(await store.search(scope, "word77", 10)) == 1
        assert len(await store.search(scope, "common", 10)) == 10
    deleted = DocumentFilters(owners, is_deleted=True)
    assert len(await store.list_rows(deleted, PAGE)) == 1
    assert await Memories(pool).get(scout.id, "/memories/77") is not None
    assert await Memories(pool).find_conflict(scout.id, "/memories/77/x/y") == "/memories/77"
    require_few(pool)


async def test_contacts_that_an_agent_sees_are_read_along_an_index(explain: Any, scout: Agent) -> None:
    pool = await explain(FILL_CONTACTS, FILL_CONTACTS_OF_OTHERS, SHARE_CONTACT)
    for filters, found in (
        ({}, 10),
        ({"email": "7@EXAMPLE.ORG"}, 1),
        ({"phone": "431700"}, 1),
        ({"created": Period(NOW, NOW + HOUR)}, 10),
        ({"email": "shared@example.org"}, 1),
        ({"email": "hidden7@example.org"}, 0),
    ):
        named = ContactFilters((scout.organization_id,), **filters, visible_to=scout.id)
        assert len(await Contacts(pool).list_page(named, PAGE)) == found, filters
    require_few(pool)


@with_statistics
async def test_documents_that_an_agent_sees_are_read_along_an_index(explain: Any, scout: Agent) -> None:
    pool = await explain(FILL_OWN_DOCUMENTS, FILL_DOCUMENTS_OF_OTHERS, SHARE_DOCUMENT)
    documents = Documents(pool)
    assert len(await documents.list_titles(scout.id, None, PAGE)) == 10
    named = DocumentFilters((scout.organization_id,), visible_to=scout.id)
    listed = await documents.list_rows(named, PAGE)
    assert len(listed) == 10
    assert listed[0]["title"] == "Shared"
    require_few(pool)


@with_statistics
async def test_conversation_is_read_along_an_index(explain: Any, scout: Agent) -> None:
    pool = await explain(FILL_MESSAGES)
    contact_id = await pool.fetchval("SELECT id FROM contact LIMIT 1")
    messages = Messages(pool, Notifications(pool, on_commit=lambda _: None, sleep=asyncio.sleep))
    conversation = MessageFilters((scout.organization_id,), scout.id, contact_id)
    assert len(await messages.list_page(conversation, PAGE)) == 3
    require_few(pool)


async def test_messages_that_were_not_sent_are_read_along_an_index(explain: Any, scout: Agent) -> None:
    pool = await explain(FILL_MESSAGES, FAIL_MESSAGE)
    messages = Messages(pool, Notifications(pool, on_commit=lambda _: None, sleep=asyncio.sleep))
    for status, found in ((MessageStatus.FAILED, 1), (MessageStatus.QUEUED, 0)):
        filters = MessageFilters((scout.organization_id,), status=status)
        assert len(await messages.list_page(filters, PAGE)) == found
    require_few(pool)


async def test_notifications_are_found_by_time_along_an_index(explain: Any, scout: Agent) -> None:
    pool = await explain(FILL_QUEUE)
    notifications = Notifications(pool, on_commit=lambda _: None, sleep=asyncio.sleep)
    owners = (scout.organization_id,)
    for filters, found in (
        (NotificationFilters(owners, created=Period(end=NOW - HOUR)), 10),
        (NotificationFilters(owners, created=Period(start=NOW)), 0),
        (NotificationFilters(owners, scheduled=Period(NOW, NOW + HOUR)), 1),
        (NotificationFilters(owners, scheduled=Period(NOW + HOUR)), 0),
    ):
        assert len(await notifications.list_rows(filters, PAGE)) == found
    require_few(pool)


async def test_traces_are_found_by_time_along_an_index(explain: Any, scout: Agent) -> None:
    pool = await explain(FILL_TRACES)
    for agent_id in (None, scout.id):
        filters = TraceFilters(agent_id=agent_id, started=Period(NOW - 2 * HOUR, NOW - HOUR))
        assert len(await Traces(pool).list_page([scout.organization_id], filters, PAGE)) == 10
    require_few(pool)


async def test_usage_is_summed_along_an_index(explain: Any, scout: Agent) -> None:
    pool = await explain(FILL_USAGE)
    owner = frozenset({scout.organization_id})
    minute = timedelta(minutes=1)
    for scope in (
        UsageScope(owner, NOW - minute / 4, NOW),
        UsageScope(owner, NOW - 2 * HOUR, NOW, agent_id=scout.id),
    ):
        sums = await UsageByDay(pool).sum_by_day(scope)
        assert sums.model_count == 1
        await UsageByDay(pool).list_top_agents(scope, 3)
    require_few(pool)


async def test_transcripts_are_read_along_an_index(explain: Any, scout: Agent) -> None:
    pool = await explain(FILL_TRANSCRIPTS)
    transcripts = Transcripts(pool)
    for carried, found in ((True, 5), (False, 10)):
        assert len(await transcripts.list_page(TranscriptFilters(scout.id, carried), PAGE)) == found
    assert len(await transcripts.list_carried(scout.id, 1000)) == 5
    require_few(pool)


async def test_agents_are_found_by_name_along_an_index(explain: Any, scout: Agent) -> None:
    pool = await explain(FILL_AGENTS)
    for filters, found in (
        (AgentFilters((scout.organization_id,), name="AGENT 7"), 1),
        (AgentFilters((scout.organization_id,), name="agent"), 0),
        (AgentFilters((scout.organization_id,), parent_id=scout.id), 0),
    ):
        assert len(await Agents(pool).list_rows(filters, PAGE)) == found
        selection = Selection(filters, AgentAction.STOP, NOW)
        assert len(await AgentSelections(pool).list_candidates(selection, PAGE.limit)) == found
    require_few(pool)


@with_statistics
async def test_sorted_agents_are_read_along_an_index(explain: Any, scout: Agent) -> None:
    pool, filters = await explain(FILL_AGENTS, FILL_DUE), AgentFilters((scout.organization_id,))
    for sort in (AgentSort.NEWEST, AgentSort.NAME, AgentSort.NEXT_WAKE):
        page = SortedPage(NOW, limit=10)
        assert len(await SortedAgents(pool).list_page(filters, sort, page)) == 10
    require_few(pool)


@with_statistics
async def test_agents_with_costs_or_work_are_read_along_an_index(explain: Any, scout: Agent) -> None:
    pool, owners = await explain(FILL_AGENTS, FILL_SPENDING, FILL_WORK), (scout.organization_id,)
    for sort in (AgentSort.COST, AgentSort.UNCLEARED):
        page = SortedPage(NOW, limit=4)
        first = await SortedAgents(pool).list_page(AgentFilters(owners), sort, page)
        assert [row.value is None for row in first] == [False, True, True, True]
    quarantined = AgentFilters(owners, phase="quarantined")
    assert await SortedAgents(pool).list_page(quarantined, AgentSort.NAME, SortedPage(NOW)) == []
    assert await SortedAgents(pool).count(quarantined, MANY) == 0
    require_few(pool)


async def test_agents_of_all_organizations_are_found_by_indexed_name(explain: Any, scout: Agent) -> None:
    await stored_agent(await explain(FILL_AGENTS))
    pool = await explain("SELECT 1")
    states = AgentStates(pool)
    assert await states.list_ids(None, None, 200, scout.name) != []
    assert len(await states.list_ids(None, None, 200, "AGENT 7")) == 1
    assert await states.list_ids(scout.id, None, 200, "Agent 7") == []
    require_few(pool)


async def test_agents_of_budgets_are_found_along_an_index(explain: Any, scout: Agent) -> None:
    pool = await explain(FILL_AGENTS, FILL_DUE, FILL_SPENDING)
    put = "UPDATE agent_state SET phase = 'over_budget' WHERE agent_id = $1"
    await pool.execute(put, scout.id)
    states = AgentStates(pool)
    assert await states.list_within_budget(NOW, NOW + HOUR, None, 1000) == [scout.id]
    assert await states.list_newly_over_budget(NOW, None, 1000) == []
    require_few(pool)


@pytest.mark.parametrize("of_template", [False, True])
async def test_secrets_are_read_along_an_index(
    explain: Callable[[str], Awaitable[ExplainingPool]], pool: Pool, scout: Agent, *, of_template: bool
) -> None:
    desk = template(scout.organization_id)
    await Templates(pool).insert(desk)
    secrets = await explain(FILL_SECRETS if of_template else FILL_TEMPLATE_SECRETS)
    found = await Secrets(secrets).list_page(
        SecretFilters((scout.organization_id,), desk.id if of_template else None), PAGE
    )
    assert found == []
    require_few(secrets)
