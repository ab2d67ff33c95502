"""Parked calls in the database: each is decided once, and ends with one notification."""

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from storage.due import GET_NEXT_DUE
from storage.errors import LimitReached
from storage.ids import new_id
from storage.model import Agent, Role
from storage.parked_calls import (
    GET_PENDING,
    LIST_DUE,
    LOCK,
    LOCK_STATE,
    CallKind,
    CallState,
    CallStep,
    Lost,
    ParkedCall,
    PresentCall,
)
from storage.postgres.paging import Page
from storage.postgres.pool import Pool
from storage.storage import Storage
from storage.toolbox import Tool
from supervisors.clock import SystemClock
from supervisors.policy.parked_calls import CallAnswer, Decision, GrantTerms, decide, end_call, look
from tests.storage.factories import (
    HOUR,
    MINUTE,
    NOW,
    adapter,
    parked_call,
    stored_agent,
    stored_organization,
    template,
    tool,
)

LEASE = 5 * MINUTE
EVENTS = "SELECT type, actor, data FROM event WHERE type LIKE 'approval.%' ORDER BY id"
QUEUE = "SELECT title, body, source, source_id, priority FROM notification ORDER BY created_at, id"
APPROVED = Decision(approve=True)


@pytest.fixture
def told() -> list[UUID]:
    return []


@pytest.fixture
def storage(pool: Pool, told: list[UUID]) -> Storage:
    return Storage(pool, on_commit=told.extend, sleep=SystemClock().sleep)


@pytest.fixture
async def refund(pool: Pool, storage: Storage) -> Tool:
    owner = await stored_organization(pool)
    payments = adapter(owner.id)
    await storage.adapters.insert(payments)
    refund = tool(payments.id, name="refund", approval="always")
    await storage.tools.insert(refund)
    return refund


@pytest.fixture
async def agent(pool: Pool, storage: Storage, refund: Tool) -> Agent:
    payments = await storage.adapters.get(refund.adapter_id)
    assert payments is not None
    used = template(payments.organization_id, approvers=Role.OWNER)
    await storage.templates.insert(used)
    return await stored_agent(
        pool, payments.organization_id, adapters=(payments.id,), template_id=used.id, template_name=used.name
    )


@pytest.fixture
async def call(storage: Storage, agent: Agent, refund: Tool) -> ParkedCall:
    return await storage.parked_calls.insert(parked_call(agent, tool_id=refund.id), actor="key:1")


async def present(storage: Storage, call: ParkedCall) -> PresentCall:
    seen: list[PresentCall] = []
    await storage.parked_calls.change(call.id, lambda locked: seen.append(locked), NOW)
    return seen[0]


async def decided(storage: Storage, call: ParkedCall, decision: Decision, by: str = "user:1") -> CallStep:
    rule = partial(decide, decision=decision, by=by, now=NOW + MINUTE)
    step = await storage.parked_calls.change(call.id, rule, NOW + MINUTE, actor=by)
    assert step is not None
    return step


async def claimed(storage: Storage, call: ParkedCall) -> ParkedCall:
    rule = partial(look, now=NOW + MINUTE, lease=LEASE)
    step = await storage.parked_calls.change(call.id, rule, NOW + MINUTE)
    assert step is not None
    return step.after


async def test_parked_call_is_read_as_it_was_stored(storage: Storage, call: ParkedCall, refund: Tool) -> None:
    read = await storage.parked_calls.get(call.id)

    assert read == replace(call, adapter_id=refund.adapter_id, approvers=Role.OWNER, approval="always")
    assert len(call.tool_digest) == 32


async def test_same_call_again_is_parked_once(storage: Storage, call: ParkedCall, agent: Agent) -> None:
    again = parked_call(agent, tool_id=call.tool_id)

    parked = await asyncio.gather(*(storage.parked_calls.insert(replace(again, id=new_id())) for _ in "abc"))

    assert {each.id for each in parked} == {call.id}


async def test_agent_waits_for_a_bounded_number_of_calls(
    storage: Storage, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.parked_calls.MAX_OPEN_PER_AGENT", 1)
    await storage.parked_calls.insert(parked_call(agent))

    with pytest.raises(LimitReached, match="waits for 1 calls"):
        await storage.parked_calls.insert(parked_call(agent, arguments="{}"))


async def test_two_deciders_at_once_decide_once(storage: Storage, call: ParkedCall, pool: Pool) -> None:
    steps = await asyncio.gather(
        decided(storage, call, APPROVED, "user:1"),
        decided(storage, call, Decision(approve=False), "user:2"),
        decided(storage, call, APPROVED, "user:3"),
    )

    events = [row["type"] for row in await pool.fetch(EVENTS)]
    assert events == ["approval.requested", "approval.decided"]
    assert len({step.after.decided_by for step in steps}) == 1
    assert any(step.refusal.startswith("It was ") for step in steps)


async def test_decision_wakes_the_runner_only_for_a_call(storage: Storage, call: ParkedCall) -> None:
    await decided(storage, call, APPROVED)

    assert storage.parked_calls.stored.is_set()
    due = await storage.parked_calls.list_due(NOW + MINUTE, [], [], 10)
    assert [each.id for each in due] == [call.id]


async def test_denial_ends_with_one_notification(
    storage: Storage, call: ParkedCall, agent: Agent, pool: Pool, told: list[UUID]
) -> None:
    step = await decided(storage, call, Decision(approve=False, note="Too much."))
    again = await decided(storage, call, Decision(approve=False))

    [notification] = await pool.fetch(QUEUE)
    assert step.after.state is CallState.DENIED
    assert again.refusal == ""
    assert told == [agent.id]
    assert notification["source"] == "system"
    assert notification["source_id"] == str(call.id)
    assert notification["priority"] == "high"
    assert "denied by user:1" in notification["body"]
    assert "Too much." in notification["body"]


async def test_answer_of_a_claimed_call_is_stored_once(
    storage: Storage, call: ParkedCall, pool: Pool
) -> None:
    await decided(storage, call, APPROVED)
    made = await claimed(storage, call)
    assert made.due_at is not None
    end = partial(end_call, answer=CallAnswer("x" * 9000), lease_until=made.due_at, now=NOW + MINUTE)

    first = await storage.parked_calls.change(call.id, end, NOW + MINUTE)
    second = await storage.parked_calls.change(call.id, end, NOW + MINUTE)

    assert first is not None
    assert first.after.state is CallState.DONE
    assert second is None
    [notification] = await pool.fetch(QUEUE)
    assert len(notification["body"]) < 6000
    assert await pool.fetchval("SELECT length(content) FROM notification_payload") == 9002


async def test_question_of_a_server_is_stored_while_the_same_call_waits_again(
    storage: Storage, call: ParkedCall, agent: Agent
) -> None:
    await decided(storage, call, APPROVED)
    made = await claimed(storage, call)
    again = await storage.parked_calls.insert(parked_call(agent, tool_id=call.tool_id))
    assert made.due_at is not None
    end = partial(end_call, answer=CallAnswer(question="Which?"), lease_until=made.due_at, now=NOW + MINUTE)

    step = await storage.parked_calls.change(call.id, end, NOW + MINUTE)

    assert step is not None
    assert (step.after.kind, step.after.state) == (CallKind.INPUT, CallState.PENDING)
    waiting = await storage.parked_calls.get(again.id)
    assert waiting is not None
    assert waiting.state is CallState.PENDING


@pytest.mark.parametrize(
    ("change", "lost"),
    [
        ("UPDATE tool SET description = 'Other.'", Lost.TOOL_CHANGED),
        ("UPDATE tool SET parameters = '{}'", Lost.TOOL_CHANGED),
        ("UPDATE tool SET url = 'http://other'", Lost.TOOL_CHANGED),
        ("UPDATE tool SET handler = 'other'", Lost.TOOL_CHANGED),
        ("DELETE FROM tool", Lost.TOOL_DELETED),
        ("DELETE FROM agent_adapter", Lost.TOOL_DETACHED),
        ("DELETE FROM adapter", Lost.TOOL_DELETED),
        ("UPDATE agent_state SET status = 'archived'", Lost.AGENT_ARCHIVED),
        ("UPDATE agent SET deleted_at = now()", Lost.AGENT_DELETED),
    ],
)
async def test_change_that_makes_a_call_pointless_has_it_looked_at(
    storage: Storage, call: ParkedCall, pool: Pool, change: str, lost: Lost
) -> None:
    await pool.execute(change)

    [due] = await storage.parked_calls.list_due(NOW, [], [], 10)
    step = await storage.parked_calls.change(due.id, partial(look, now=NOW, lease=LEASE), NOW)

    assert step is not None
    assert step.after.state is CallState.WITHDRAWN
    assert step.after.outcome
    assert len(await pool.fetch(QUEUE)) == (lost is not Lost.AGENT_DELETED)
    assert [row["type"] for row in await pool.fetch(EVENTS)][1:] == ["approval.withdrawn"]


async def test_change_of_other_fields_of_a_tool_withdraws_nothing(
    storage: Storage, call: ParkedCall, pool: Pool
) -> None:
    await pool.execute("UPDATE tool SET idempotent = true, approval = '\"never\"', detail_url = 'http://x'")

    step = await storage.parked_calls.change(call.id, partial(look, now=NOW, lease=LEASE), NOW)

    assert step is not None
    assert step.after.state is CallState.PENDING
    assert step.after.due_at == NOW + 3 * HOUR


async def test_decision_on_a_changed_tool_is_refused(storage: Storage, call: ParkedCall, pool: Pool) -> None:
    await pool.execute("UPDATE tool SET url = 'http://other'")

    step = await decided(storage, call, APPROVED)

    assert step.refusal == "It was withdrawn: the tool has changed since."
    assert len(await pool.fetch(QUEUE)) == 1


async def test_grant_is_stored_with_the_decision(storage: Storage, call: ParkedCall, agent: Agent) -> None:
    terms = GrantTerms(is_exact=True, max_uses=1)
    await decided(storage, call, Decision(approve=True, grant=terms))

    [grant] = await storage.approval_grants.list_page((agent.organization_id,), Page())
    assert (grant.call_id, grant.tool, grant.created_by) == (call.id, "refund", "user:1")
    assert [await storage.approval_grants.use(grant.id, NOW) for _ in "ab"] == [True, False]


async def grants_for(storage: Storage, call: ParkedCall, digest: bytes) -> int:
    assert call.tool_id is not None
    usable = storage.approval_grants.list_usable
    return len(await usable(call.agent_id, call.tool_id, digest, NOW + HOUR))


async def test_grant_covers_no_more_than_it_says(
    storage: Storage, call: ParkedCall, agent: Agent, pool: Pool
) -> None:
    step = await decided(storage, call, Decision(approve=True, grant=GrantTerms(is_exact=True)))
    assert step.grant is not None
    digest = step.grant.digest or b""

    assert await grants_for(storage, call, digest) == 1
    assert await grants_for(storage, call, b"other") == 0
    await pool.execute("UPDATE approval_grant SET until = $1", NOW + HOUR)
    assert await grants_for(storage, call, digest) == 0
    await pool.execute("UPDATE approval_grant SET until = NULL")
    await pool.execute("UPDATE tool SET description = 'Other.'")
    assert await grants_for(storage, call, digest) == 0


async def test_revoked_grant_covers_nothing(storage: Storage, call: ParkedCall) -> None:
    step = await decided(storage, call, Decision(approve=True, grant=GrantTerms(is_exact=False)))
    assert step.grant is not None

    first = await storage.approval_grants.revoke(step.grant.id, NOW + HOUR, actor="user:2")
    second = await storage.approval_grants.revoke(step.grant.id, NOW + 2 * HOUR, actor="user:3")

    assert first == second
    assert first is not None
    assert first.revoked_by == "user:2"
    assert await grants_for(storage, call, b"") == 0
    assert await storage.approval_grants.revoke(new_id(), NOW, actor="") is None


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        ({"state": CallState.PENDING}, 2),
        ({"state": CallState.DENIED}, 1),
        ({"kind": CallKind.QUESTION}, 2),
        ({"tool": "refund"}, 1),
        ({"until": NOW - HOUR}, 1),
        ({}, 3),
    ],
)
async def test_list_shows_what_the_filters_say(
    storage: Storage, call: ParkedCall, agent: Agent, filters: dict[str, Any], count: int
) -> None:
    await storage.parked_calls.insert(parked_call(agent, created_at=NOW - HOUR))
    denied = await storage.parked_calls.insert(parked_call(agent, arguments="{}"))
    await decided(storage, denied, Decision(approve=False))

    calls = await storage.parked_calls.list_page((agent.organization_id,), Page(), **filters)
    other = await storage.parked_calls.list_page((new_id(),), Page(), **filters)

    assert (len(calls), len(other)) == (count, 0)


FILL = """
INSERT INTO parked_call (
    id, organization_id, agent_id, kind, state, tool, tool_digest, arguments, digest, question, created_at,
    expires_at, due_at, decided_by, note, ended_at, outcome)
SELECT gen_random_uuid(), a.organization_id, a.id, 'approval',
       'pending', 'refund', '', '{}', sha256(n::text::bytea), '', $1, $2, $2, '', '', NULL, ''
FROM agent a CROSS JOIN generate_series($3::integer, $3::integer + 99) AS n
"""
MANY_AGENTS = 100
FEW = 20


def rows_touched(node: dict[str, Any]) -> int:
    """Return the most rows that a step of a plan has read, including those it discarded."""
    removed = sum(value for key, value in node.items() if key.startswith("Rows Removed"))
    own = int((node["Actual Rows"] + removed) * node["Actual Loops"])
    return max([own, *map(rows_touched, node.get("Plans", ()))])


@pytest.mark.own_database
async def test_hundred_thousand_parked_calls_cost_the_runner_nothing(
    storage: Storage, pool: Pool, agent: Agent, call: ParkedCall
) -> None:
    for _ in range(MANY_AGENTS - 1):
        await stored_agent(pool, agent.organization_id)
    for first in range(0, 1000, 100):
        await pool.execute(FILL, NOW, NOW + 168 * HOUR, first)
    await storage.parked_calls.refresh_pending()
    assert storage.parked_calls.last_pending.count == 100_001

    await require_few_rows(pool, agent, call)
    await pool.execute("ANALYZE parked_call, agent, tool, template")
    await require_few_rows(pool, agent, call)


async def require_few_rows(pool: Pool, agent: Agent, call: ParkedCall) -> None:
    """Fail if a statement that the runner needs touches more than a few rows."""
    others: list[UUID] = []
    for sql, arguments in (
        (GET_NEXT_DUE, (1,)),
        (LIST_DUE, (NOW + 3 * HOUR, others, others, 128)),
        (LOCK_STATE, (call.id,)),
        (LOCK, (call.id,)),
        (GET_PENDING, (agent.id, call.digest)),
    ):
        [(plan,)] = await pool.fetch(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", *arguments)
        assert rows_touched(plan[0]["Plan"]) <= FEW, sql


async def test_count_of_pending_names_the_oldest(storage: Storage, call: ParkedCall, agent: Agent) -> None:
    await storage.parked_calls.refresh_pending()
    pending = storage.parked_calls.last_pending

    assert (pending.count, pending.oldest_at) == (1, NOW)
    assert await storage.parked_calls.count_pending_of(agent.id) == pending
    assert (await storage.parked_calls.count_pending_of(new_id())).count == 0
