"""Messages: receiving them with their notifications, and updating them."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from storage.agents.agents import Agents
from storage.channels.contacts import Contacts
from storage.channels.messages import (
    Channel,
    Direction,
    Messages,
    MessageStatus,
    Origin,
    Upload,
)
from storage.errors import ConstraintError, Forbidden, ReferenceMissing, RowLocked
from storage.ids import new_id
from storage.model import Agent, Source
from storage.postgres.pool import Pool
from tests.storage.channels.resources import contact, message
from tests.storage.factories import HOUR, NOW, SECOND, new_notification, stored_agent

LAST_EVENT_ID = "SELECT last_value + is_called::integer FROM event_id_seq"
INSERT_RUN = """
INSERT INTO run (id, agent_id, organization_id, wake_reason, started_at)
SELECT $1, id, organization_id, 'reminder', now() FROM agent WHERE id = $2
"""
LEAVE_UNANSWERED = (
    "UPDATE run SET ended_at = $2, outcome = 'ended', needs_person = true, journal = $3 WHERE id = $1"
)
SEND = "UPDATE message SET status = 'sent' WHERE id = $1"
IS_WAITING = """
SELECT EXISTS (SELECT FROM pg_locks JOIN pg_database d ON d.oid = database
               WHERE locktype = 'advisory' AND NOT granted AND datname = current_database())
"""
LOCK_STATE = "SELECT 1 FROM agent_state WHERE agent_id = $1 FOR UPDATE"


async def queued_titles(pool: Pool, of: Agent) -> list[tuple[str, str]]:
    rows = await pool.fetch("SELECT source, title FROM notification WHERE agent_id = $1", of.id)
    return [tuple(row) for row in rows]


async def test_received_message_is_queued_and_updates_the_agent(
    messages: Messages, reported: list[UUID], pool: Pool, scout: Agent
) -> None:
    new = message(scout)
    notification = new_notification(scout.id, source=Source.SMS, title="New sms")

    await messages.receive(new, notification, {scout.organization_id})

    assert await messages.get(new.id) == new
    assert await queued_titles(pool, scout) == [("sms", "New sms")]
    assert await pool.fetchval("SELECT wake_seq FROM agent_state WHERE agent_id = $1", scout.id) == 1
    assert reported == [scout.id]


async def test_neither_message_nor_notification_is_stored_alone(
    messages: Messages, reported: list[UUID], pool: Pool, scout: Agent
) -> None:
    deleted = await stored_agent(pool, scout.organization_id)
    await Agents(pool).delete(deleted.id, NOW)

    with pytest.raises(ReferenceMissing, match="contact"):
        await messages.receive(
            message(scout, contact_id=new_id()), new_notification(scout.id), {scout.organization_id}
        )
    with pytest.raises(ReferenceMissing, match="agent"):
        await messages.receive(message(deleted), new_notification(deleted.id), {scout.organization_id})
    with pytest.raises(Forbidden):
        await messages.receive(message(scout), new_notification(scout.id), set())

    assert await pool.fetchval("SELECT count(*) FROM message") == 0
    assert await pool.fetchval("SELECT count(*) FROM notification") == 0
    assert reported == []


async def test_message_waiting_for_its_agent_takes_no_event_id(
    messages: Messages, pool: Pool, scout: Agent
) -> None:
    before = await pool.fetchval(LAST_EVENT_ID)
    async with pool.transaction() as holder:
        await holder.execute(LOCK_STATE, scout.id)
        with pytest.raises(RowLocked):
            await messages.receive(message(scout), new_notification(scout.id), {scout.organization_id})

    assert await pool.fetchval(LAST_EVENT_ID) == before


async def test_message_whose_files_are_refused_takes_no_event_id(
    messages: Messages, pool: Pool, scout: Agent
) -> None:
    before = await pool.fetchval(LAST_EVENT_ID)
    file = Upload(new_id(), "a.txt", "text/plain", b"a")

    with pytest.raises(ConstraintError):
        await messages.insert(message(scout), uploads=[file, file])
    assert await pool.fetchval(LAST_EVENT_ID) == before


async def test_last_origin_is_that_of_last_inbound_message(
    messages: Messages, pool: Pool, scout: Agent
) -> None:
    ada = contact(scout)
    await Contacts(pool).insert(ada)
    assert await messages.get_last_origin(scout.id, ada.id) is None

    for number, channel in enumerate((Channel.EMAIL, Channel.MMS)):
        await messages.insert(
            message(
                scout,
                contact_id=ada.id,
                channel=channel,
                address="+431234567",
                created_at=NOW + number * SECOND,
            )
        )
    await messages.insert(
        message(scout, contact_id=ada.id, direction=Direction.OUTBOUND, created_at=NOW + HOUR)
    )

    assert await messages.get_last_origin(scout.id, ada.id) == Origin(Channel.MMS, "+431234567")
    assert await messages.get_last_origin(new_id(), ada.id) is None


async def test_message_outlives_its_contact(messages: Messages, pool: Pool, scout: Agent) -> None:
    ada = contact(scout)
    await Contacts(pool).insert(ada)
    new = message(scout, contact_id=ada.id)
    await messages.insert(new)

    assert await Contacts(pool).delete(ada.id)

    assert await messages.get(new.id) == replace(new, contact_id=None)
    changed = await messages.update(new.id, {"status": MessageStatus.FAILED, "attachments": ()}, NOW)
    assert changed == replace(new, contact_id=None, status=MessageStatus.FAILED, attachments=())
    assert await messages.delete(new.id)
    assert not await messages.delete(new.id)
    assert await messages.update(new.id, {"body": "x"}, NOW) is None


async def test_settle_sets_the_status_of_queued_message_once(messages: Messages, scout: Agent) -> None:
    queued = message(scout, direction=Direction.OUTBOUND, status=MessageStatus.QUEUED)
    await messages.insert(queued)

    assert await messages.update_queued(queued.id, MessageStatus.SENT, NOW) is MessageStatus.SENT
    assert await messages.update_queued(queued.id, MessageStatus.FAILED, NOW) is MessageStatus.SENT
    assert await messages.get(queued.id) == replace(queued, status=MessageStatus.SENT)
    assert await messages.update_queued(new_id(), MessageStatus.FAILED, NOW) is MessageStatus.FAILED


@pytest.fixture
async def failed(messages: Messages, pool: Pool, scout: Agent) -> tuple[UUID, UUID]:
    """Two texts of one run to one contact, which both failed."""
    ada, run_id = contact(scout), new_id()
    await Contacts(pool).insert(ada)
    await pool.execute(INSERT_RUN, run_id, scout.id)
    for body in ("We open at nine.", "And close at six."):
        await messages.insert(
            message(
                scout,
                contact_id=ada.id,
                direction=Direction.OUTBOUND,
                body=body,
                status=MessageStatus.FAILED,
                run_id=run_id,
            )
        )
    first, second = await pool.fetch("SELECT id FROM message WHERE needs_person ORDER BY id")
    return first["id"], second["id"]


async def test_one_statement_may_solve_messages_that_solve_each_other(
    pool: Pool, failed: tuple[UUID, UUID]
) -> None:
    await pool.execute("UPDATE message SET status = 'sent' WHERE id = ANY($1::uuid[])", failed)
    assert await pool.fetchval("SELECT count(*) FROM message WHERE needs_person") == 0

    await pool.execute("UPDATE message SET status = 'failed', body = 'x' WHERE id = ANY($1::uuid[])", failed)
    assert await pool.fetchval("SELECT count(*) FROM message WHERE needs_person") == 1


async def test_sent_message_does_not_wait_for_another_that_it_solves(
    pool: Pool, failed: tuple[UUID, UUID]
) -> None:
    first, second = failed
    async with pool.transaction() as holder:
        await holder.execute("SELECT FROM message WHERE id = $1 FOR UPDATE", second)
        async with pool.transaction() as connection:
            await connection.execute("SET LOCAL lock_timeout = '200ms'")
            await connection.execute("UPDATE message SET status = 'sent' WHERE id = $1", first)


async def test_messages_sent_at_once_solve_the_run_they_answer(
    messages: Messages, pool: Pool, scout: Agent
) -> None:
    contacts, run_id = [contact(scout), contact(scout, phone="+4312345678")], new_id()
    answers = [
        message(scout, contact_id=one.id, direction=Direction.OUTBOUND, status=MessageStatus.QUEUED)
        for one in contacts
    ]
    for one, answer in zip(contacts, answers, strict=True):
        await Contacts(pool).insert(one)
        await messages.insert(answer)
    await pool.execute(INSERT_RUN, run_id, scout.id)
    journal = {"unanswered": [str(one.id) for one in contacts], "tools": []}
    await pool.execute(LEAVE_UNANSWERED, run_id, NOW, journal)

    async with pool.transaction() as connection:
        await connection.execute(SEND, answers[0].id)
        second = asyncio.create_task(pool.execute(SEND, answers[1].id))
        while not await connection.fetchval(IS_WAITING) and not second.done():
            pass
    await second

    assert not await pool.fetchval("SELECT needs_person FROM run WHERE id = $1", run_id)


async def test_message_needs_a_person_until_it_is_sent(
    messages: Messages, pool: Pool, failed: tuple[UUID, UUID]
) -> None:
    first, _ = failed
    needs = "SELECT needs_person FROM message WHERE id = $1"
    assert await messages.requeue(first, NOW, NOW)
    assert (await messages.get(first)).status is MessageStatus.QUEUED  # type: ignore[union-attr]
    assert await pool.fetchval(needs, first)

    await messages.update_queued(first, MessageStatus.SENT, NOW)
    assert not await pool.fetchval(needs, first)
    assert not await messages.requeue(first, NOW, NOW)
    assert not await messages.is_being_sent(first, NOW)


async def test_message_is_sent_again_by_one_request_at_a_time(
    messages: Messages, failed: tuple[UUID, UUID]
) -> None:
    first, _ = failed
    shortly_before, until = NOW + timedelta(seconds=59), NOW + timedelta(minutes=1)
    assert await messages.requeue(first, NOW, until)
    assert not await messages.requeue(first, shortly_before, until)
    assert await messages.is_being_sent(first, shortly_before)
    assert await messages.requeue(first, until, until)  # the process that sent it has ended

    await messages.update_queued(first, MessageStatus.FAILED, NOW)
    assert not await messages.is_being_sent(first, NOW)
    assert await messages.requeue(first, NOW, until)
