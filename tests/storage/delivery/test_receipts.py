"""Receipts: each is stored exactly if its effect is."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from types import NoneType

import pytest

from storage.agent_facts import AgentState, StateUpdate
from storage.agents.state_updates import update_states
from storage.channels.messages import Channel, Direction, Message, MessageStatus
from storage.delivery.receipts import StoredAnswer, insert_receipt
from storage.errors import AnsweredBefore, Forbidden, NotUnique, StorageError
from storage.history.trace_model import Trace
from storage.ids import new_id
from storage.model import Agent, AgentStatus, Receipt, ReceiptKey
from storage.notifications.notifications import InsertItem, insert_together
from storage.postgres.pool import Connection, Pool
from storage.storage import Storage
from supervisors.clock import SystemClock
from tests.storage.factories import (
    NOW,
    agent,
    new_notification,
    new_span,
    receipt,
    stored_agent,
)

Effect = Callable[[Storage, Agent, Receipt], Awaitable[object]]

COUNT_EFFECTS = """
SELECT (SELECT count(*) FROM notification) + (SELECT count(*) FROM span) + (SELECT count(*) FROM message)
     + (SELECT count(*) FROM agent_state WHERE run_requested_at IS NOT NULL)
"""


@pytest.fixture
def storage(pool: Pool) -> Storage:
    return Storage(pool, on_commit=lambda _: None, sleep=SystemClock().sleep)


@pytest.fixture
async def scout(pool: Pool) -> Agent:
    return await stored_agent(pool)


async def insert_notification(storage: Storage, scout: Agent, kept: Receipt) -> None:
    await storage.notifications.insert(new_notification(scout.id), {scout.organization_id}, kept)


def message(scout: Agent, direction: Direction) -> Message:
    return Message(
        id=new_id(),
        organization_id=scout.organization_id,
        agent_id=scout.id,
        contact_id=None,
        channel=Channel.SMS,
        direction=direction,
        subject="",
        body="Hello",
        attachments=(),
        status=MessageStatus.RECEIVED if direction is Direction.INBOUND else MessageStatus.QUEUED,
        created_at=NOW,
    )


async def insert_message(storage: Storage, scout: Agent, kept: Receipt) -> None:
    await storage.messages.insert(message(scout, Direction.OUTBOUND), kept)


async def receive_message(storage: Storage, scout: Agent, kept: Receipt) -> None:
    received = message(scout, Direction.INBOUND)
    await storage.messages.receive(received, new_notification(scout.id), {scout.organization_id}, kept)


async def insert_spans(storage: Storage, scout: Agent, kept: Receipt) -> None:
    trace = Trace(scout.id, scout.organization_id, scout.id, "", NOW, None, "", {})
    if await storage.traces.get(trace.id) is None:
        await storage.traces.insert(trace)
    await storage.traces.insert_spans([new_span(trace.id), new_span(trace.id)], kept)


async def request_run(storage: Storage, scout: Agent, kept: Receipt) -> None:
    assert await storage.agent_states.update(request_update(await get_state(storage, scout), kept))


async def request_run_under_lock(storage: Storage, scout: Agent, kept: Receipt) -> None:
    async with storage.agent_states.locked(scout.id, NOW) as locked:
        assert await locked.update(request_update(await get_state(storage, scout), kept))


async def get_state(storage: Storage, scout: Agent) -> AgentState:
    facts = await storage.agent_states.get_facts(scout.id, NOW)
    assert facts is not None
    return facts.state


def request_update(before: AgentState, kept: Receipt) -> StateUpdate:
    return StateUpdate(before, replace(before, run_requested_at=NOW), guarded=False, receipt=kept)


EFFECTS = (
    insert_notification,
    insert_message,
    receive_message,
    insert_spans,
    request_run,
    request_run_under_lock,
)


@pytest.mark.parametrize("effect", EFFECTS)
async def test_effect_and_receipt_are_stored_together_and_once(
    pool: Pool, storage: Storage, scout: Agent, effect: Effect
) -> None:
    kept = receipt()
    await effect(storage, scout, kept)
    expected = StoredAnswer(scout.organization_id, kept.body_hash, kept.status, kept.answer)
    assert await storage.receipts.get(kept.key) == expected
    effects = await pool.fetchval(COUNT_EFFECTS)

    # A client that lost the answer and repeats the request causes no second effect; the first answer stays.
    with pytest.raises(AnsweredBefore):
        await effect(storage, scout, replace(kept, answer=b"another"))
    assert await pool.fetchval(COUNT_EFFECTS) == effects
    assert await storage.receipts.get(kept.key) == expected


async def test_repeated_request_in_batch_does_not_affect_others(
    pool: Pool, storage: Storage, scout: Agent
) -> None:
    kept = receipt()
    receipts = [kept if number in {3, 7} else None for number in range(10)]
    results = await asyncio.gather(
        *(
            storage.notifications.insert(new_notification(scout.id), {scout.organization_id}, repeated)
            for repeated in receipts
        ),
        return_exceptions=True,
    )
    kinds = [type(result) for result in results]
    assert kinds == [NoneType] * 7 + [AnsweredBefore] + [NoneType] * 2
    assert await pool.fetchval("SELECT count(*) FROM notification") == 9
    assert await pool.fetchval("SELECT wake_seq FROM agent_state WHERE agent_id = $1", scout.id) == 9


async def test_repeated_request_for_locked_agent_does_not_affect_others(
    pool: Pool, storage: Storage, scout: Agent
) -> None:
    kept = receipt()
    await storage.receipts.insert(kept, scout.organization_id)
    async with storage.agent_states.locked(scout.id, NOW):
        inserts = [
            asyncio.create_task(
                storage.notifications.insert(new_notification(scout.id), {scout.organization_id}, one)
            )
            for one in (None, kept, None)
        ]
        await wait_until_lock_is_awaited(pool)
    results = await asyncio.gather(*inserts, return_exceptions=True)
    assert [type(result) for result in results] == [NoneType, AnsweredBefore, NoneType]
    assert await pool.fetchval("SELECT count(*) FROM notification") == 2


class RolledBack(Exception):
    """Ends a transaction without an effect."""


async def insert_notifications(connection: Connection, agents: list[Agent], receipts: list[Receipt]) -> None:
    items = [
        InsertItem(new_notification(each.id), {each.organization_id}, kept)
        for each, kept in zip(agents, receipts, strict=True)
    ]
    assert await insert_together(connection.fetch, items) == [None] * len(items)


async def update_all_states(connection: Connection, agents: list[Agent], receipts: list[Receipt]) -> None:
    updates = [
        request_update(AgentState(each.id, AgentStatus.SLEEPING), kept)
        for each, kept in zip(agents, receipts, strict=True)
    ]
    assert all((await update_states(connection.fetch, updates)).values())


@pytest.mark.parametrize("write", [insert_notifications, update_all_states])
async def test_groups_of_two_nodes_with_the_same_receipts_do_not_deadlock(
    pool: Pool, storage: Storage, write: Callable[[Connection, list[Agent], list[Receipt]], Awaitable[None]]
) -> None:
    """Each group stops at a receipt between the two common ones, until both have come so far."""
    agents = [await stored_agent(pool) for _ in range(6)]
    first, last, *gates = (receipt(key=ReceiptKey(new_id(), "POST", "/", "")) for _ in range(4))

    async def node(agents: list[Agent], receipts: list[Receipt]) -> None:
        async with pool.transaction() as connection:
            await write(connection, agents, receipts)

    with suppress(RolledBack):
        async with pool.transaction() as blocker:
            for gate in gates:
                await insert_receipt(blocker, gate, agents[0].organization_id)
            nodes = [
                asyncio.create_task(node(agents[:3], [first, gates[0], last])),
                asyncio.create_task(node(agents[3:], [last, gates[1], first])),
            ]
            await wait_until_lock_is_awaited(pool, 2)
            raise RolledBack
    results = await asyncio.gather(*nodes, return_exceptions=True)
    assert Counter(map(type, results)) == {NoneType: 1, AnsweredBefore: 1}


async def test_refused_effect_stores_no_receipt(pool: Pool, storage: Storage, scout: Agent) -> None:
    taken = await stored_agent(pool, email_alias="scout")
    refused: list[tuple[Awaitable[object], type[StorageError]]] = [
        (storage.notifications.insert(new_notification(scout.id), (), receipt()), Forbidden),
        (
            storage.agents.insert(agent(taken.organization_id, email_alias="Scout"), None, receipt()),
            NotUnique,
        ),
    ]
    for effect, error in refused:
        with pytest.raises(error):
            await effect
    outdated = request_update(AgentState(scout.id, AgentStatus.RUNNING), receipt())
    assert not await storage.agent_states.update(outdated)
    assert await pool.fetchval("SELECT count(*) FROM receipt") == 0


async def wait_until_lock_is_awaited(pool: Pool, count: int = 1) -> None:
    while await pool.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted") < count:
        pass
