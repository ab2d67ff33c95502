"""Messages: receiving them with their notifications, listing and updating them."""

import asyncio
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from storage.agents.agents import Agents
from storage.channels.attachments import Upload
from storage.channels.contacts import Contacts
from storage.channels.messages import (
    Channel,
    Direction,
    Message,
    MessageFilters,
    Messages,
    MessageStatus,
    Origin,
)
from storage.errors import ConstraintError, Forbidden, ReferenceMissing, RowLocked
from storage.ids import new_id
from storage.model import Agent, Source
from storage.postgres.paging import Page
from storage.postgres.pool import Pool
from tests.storage.channels.resources import contact, message
from tests.storage.factories import HOUR, NOW, SECOND, new_notification, stored_agent

LAST_EVENT_ID = "SELECT last_value + is_called::integer FROM event_id_seq"
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


async def test_message_to_agent_locked_too_long_stores_nothing(
    messages: Messages, pool: Pool, scout: Agent
) -> None:
    async with pool.transaction() as holder:
        await holder.execute(LOCK_STATE, scout.id)
        with pytest.raises(RowLocked):
            await messages.receive(message(scout), new_notification(scout.id), {scout.organization_id})

    assert await pool.fetchval("SELECT count(*) FROM message") == 0


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


async def test_concurrent_messages_to_one_agent_are_all_stored(
    messages: Messages, pool: Pool, scout: Agent
) -> None:
    await asyncio.gather(
        *(
            messages.receive(message(scout), new_notification(scout.id), {scout.organization_id})
            for _ in range(20)
        )
    )

    assert await pool.fetchval("SELECT count(*) FROM message") == 20
    assert await pool.fetchval("SELECT wake_seq FROM agent_state WHERE agent_id = $1", scout.id) == 20


async def test_page_filters_messages_newest_first(messages: Messages, pool: Pool, scout: Agent) -> None:
    ada = contact(scout)
    await Contacts(pool).insert(ada)
    stored = [
        message(scout, contact_id=ada.id),
        message(scout, channel=Channel.EMAIL, created_at=NOW + SECOND),
        message(scout, direction=Direction.OUTBOUND, created_at=NOW + 2 * SECOND),
    ]
    for new in stored:
        await messages.insert(new)
    first, second, third = stored

    async def listed(page: Page | None = None, **filters: Any) -> list[Message]:
        return await messages.list_page(MessageFilters((scout.organization_id,), **filters), page or Page())

    assert await listed() == [third, second, first]
    assert await listed(Page(after=(third.created_at, third.id), limit=1)) == [second]
    assert await listed(contact_id=ada.id) == [first]
    assert await listed(channel=Channel.EMAIL) == [second]
    assert await listed(direction=Direction.OUTBOUND) == [third]
    assert await listed(agent_id=new_id()) == []


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
