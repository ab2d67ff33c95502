"""Receipts: each is stored exactly if its effect is, and deleted after a day."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from types import NoneType

import pytest

from storage.agent_facts import AgentState, StateUpdate
from storage.channels.contacts import Contact
from storage.channels.documents import Document
from storage.channels.messages import Channel, Direction, Message, MessageStatus
from storage.channels.projects import Project, ProjectStatus
from storage.delivery.receipts import StoredAnswer
from storage.errors import AnsweredBefore, Forbidden, NotUnique, StorageError
from storage.history.trace_model import Trace
from storage.history.usage import UsageRecord
from storage.ids import new_id
from storage.model import Agent, AgentStatus, Receipt
from storage.postgres.pool import Pool
from storage.storage import Storage
from storage.toolbox.adapter_configs import AdapterConfig
from supervisors.clock import SystemClock
from supervisors.maintenance.retention_cleaner import BATCH, LIFETIME, ReceiptCleaner
from tests.storage.factories import (
    HOUR,
    NOW,
    SECOND,
    adapter,
    agent,
    api_key,
    new_notification,
    new_span,
    open_invite,
    receipt,
    stored_agent,
    template,
    tool,
)
from tests.supervisors.held_clock import HeldClock

Effect = Callable[[Storage, Agent, Receipt], Awaitable[object]]

COUNT_EFFECTS = """
SELECT (SELECT count(*) FROM template) + (SELECT count(*) FROM agent) + (SELECT count(*) FROM notification)
     + (SELECT count(*) FROM contact) + (SELECT count(*) FROM document) + (SELECT count(*) FROM project)
     + (SELECT count(*) FROM adapter) + (SELECT count(*) FROM tool) + (SELECT count(*) FROM adapter_config)
     + (SELECT count(*) FROM invite) + (SELECT count(*) FROM api_key) + (SELECT count(*) FROM span)
     + (SELECT count(*) FROM message) + (SELECT count(*) FROM trace) + (SELECT count(*) FROM usage_record)
     + (SELECT count(*) FROM agent_state WHERE run_requested_at IS NOT NULL)
"""


@pytest.fixture
async def storage(pool: Pool) -> AsyncIterator[Storage]:
    storage = Storage(pool, on_commit=lambda _: None, sleep=SystemClock().sleep)
    yield storage
    await storage.close()


@pytest.fixture
async def scout(pool: Pool) -> Agent:
    return await stored_agent(pool)


async def insert_template(storage: Storage, scout: Agent, kept: Receipt) -> None:
    await storage.templates.insert(template(scout.organization_id), kept)


async def insert_agent(storage: Storage, scout: Agent, kept: Receipt) -> None:
    await storage.agents.insert(agent(scout.organization_id), None, kept)


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


async def insert_trace(storage: Storage, scout: Agent, kept: Receipt) -> None:
    await storage.traces.insert(Trace(new_id(), scout.organization_id, scout.id, "", NOW, None, "", {}), kept)


async def insert_usage(storage: Storage, scout: Agent, kept: Receipt) -> None:
    record = UsageRecord(
        new_id(), scout.organization_id, scout.id, None, "builtin/inbox", 1, 1, 0, Decimal(0), True, NOW
    )
    await storage.usage.insert(record, kept)


async def insert_contact(storage: Storage, scout: Agent, kept: Receipt) -> None:
    contact = Contact(new_id(), scout.organization_id, scout.id, "Ada", "", "", {}, NOW)
    await storage.contacts.insert(contact, kept)


async def insert_document(storage: Storage, scout: Agent, kept: Receipt) -> None:
    document = Document(new_id(), scout.organization_id, None, None, "Notes", "", "", NOW, NOW)
    await storage.documents.insert(document, kept)


async def insert_project(storage: Storage, scout: Agent, kept: Receipt) -> None:
    project = Project(new_id(), scout.organization_id, None, "Move", "", ProjectStatus.ACTIVE, NOW, NOW)
    await storage.projects.insert(project, kept)


async def insert_adapter(storage: Storage, scout: Agent, kept: Receipt) -> None:
    await storage.adapters.insert(adapter(scout.organization_id), kept)


async def insert_tool(storage: Storage, scout: Agent, kept: Receipt) -> None:
    weather = adapter(scout.organization_id, id=scout.id)
    if await storage.adapters.get(weather.id) is None:
        await storage.adapters.insert(weather)
    await storage.tools.insert(tool(weather.id), kept)


async def insert_config(storage: Storage, scout: Agent, kept: Receipt) -> None:
    weather = adapter(scout.organization_id, id=scout.id)
    concierge = template(scout.organization_id, id=scout.id)
    if await storage.adapters.get(weather.id) is None:
        await storage.adapters.insert(weather)
        await storage.templates.insert(concierge)
    config = AdapterConfig(new_id(), scout.organization_id, concierge.id, weather.id, {}, NOW, NOW)
    await storage.adapter_configs.insert(config, kept)


async def insert_invite(storage: Storage, scout: Agent, kept: Receipt) -> None:
    await storage.invites.insert(open_invite(scout.organization_id), kept)


async def insert_api_key(storage: Storage, scout: Agent, kept: Receipt) -> None:
    await storage.api_keys.insert(api_key(scout.organization_id, prefix="taken"), b"hash", kept)


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
    insert_template,
    insert_agent,
    insert_notification,
    insert_message,
    receive_message,
    insert_trace,
    insert_usage,
    insert_contact,
    insert_document,
    insert_project,
    insert_adapter,
    insert_tool,
    insert_config,
    insert_invite,
    insert_api_key,
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


async def test_notification_for_locked_agent_stores_its_receipt(
    pool: Pool, storage: Storage, scout: Agent
) -> None:
    kept = receipt()
    async with storage.agent_states.locked(scout.id, NOW):
        insert = asyncio.create_task(insert_notification(storage, scout, kept))
        await wait_until_lock_is_awaited(pool)
        assert await storage.receipts.get(kept.key) is None
    await insert
    assert await storage.receipts.get(kept.key) is not None


async def wait_until_lock_is_awaited(pool: Pool) -> None:
    async with asyncio.timeout(10):
        while not await pool.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
            pass


async def test_receipt_is_deleted_after_its_lifetime(storage: Storage, scout: Agent) -> None:
    clock = HeldClock(NOW)
    cleaner = ReceiptCleaner(storage.receipts, clock)
    old, fresh = receipt(), receipt(created_at=NOW + HOUR)
    await storage.receipts.insert(old, scout.organization_id)
    await storage.receipts.insert(fresh, scout.organization_id)
    clock.advance((LIFETIME - SECOND).total_seconds())
    assert await cleaner.run_once() == 0
    clock.advance(1)
    assert await cleaner.run_once() == 1
    assert await storage.receipts.get(old.key) is None
    assert await storage.receipts.get(fresh.key) is not None
    await insert_template(storage, scout, replace(old, created_at=clock.now()))


async def test_many_old_receipts_are_deleted_in_batches(pool: Pool, storage: Storage, scout: Agent) -> None:
    await pool.execute(
        """
        INSERT INTO receipt
        SELECT $1, 'POST', '/', i::text, $1, '', 201, '', $2 FROM generate_series(1, $3::integer) AS i
        """,
        scout.organization_id,
        NOW,
        BATCH + 1,
    )
    later = NOW + timedelta(days=2)
    assert await storage.receipts.delete_expired(later, 5) == 5
    assert await ReceiptCleaner(storage.receipts, HeldClock(later)).run_once() == BATCH - 4
