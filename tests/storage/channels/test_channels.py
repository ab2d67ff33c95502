"""Contacts, messages, documents and projects; and that a message that comes in is in the queue as well."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from storage.agents.agents import Agents
from storage.channels.contacts import Contact, ContactFilters, Contacts
from storage.channels.documents import Document, DocumentFilters, Documents
from storage.channels.messages import (
    Attachment,
    Channel,
    Direction,
    Message,
    MessageFilters,
    Messages,
    MessageStatus,
)
from storage.channels.projects import Project, ProjectFilters, Projects, ProjectStatus
from storage.errors import Forbidden, ReferenceMissing, RowLocked
from storage.ids import new_id
from storage.model import Agent, Source
from storage.notifications.notifications import Notifications
from storage.postgres.paging import Page
from storage.postgres.pool import Pool
from storage.retention import Retention
from tests.storage.factories import HOUR, NOW, SECOND, new_notification, stored_agent

LOCK_STATE = "SELECT 1 FROM agent_state WHERE agent_id = $1 FOR UPDATE"


class Told:
    """What the registry would have heard."""

    def __init__(self) -> None:
        self.agent_ids: list[UUID] = []

    def __call__(self, agent_ids: Sequence[UUID]) -> None:
        self.agent_ids.extend(agent_ids)


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
async def messages(pool: Pool, told: Told) -> AsyncIterator[Messages]:
    notifications = Notifications(pool, told, sleep=asyncio.sleep)
    yield Messages(pool, notifications)
    await notifications.close()


@pytest.fixture
async def scout(pool: Pool) -> Agent:
    return await stored_agent(pool)


def contact(of: Agent, **fields: Any) -> Contact:
    plain = Contact(
        new_id(), of.organization_id, of.id, "Ada", "ada@example.com", "+43 1", {"vip": True}, NOW
    )
    return replace(plain, **fields)


def message(of: Agent, **fields: Any) -> Message:
    plain = Message(
        id=new_id(),
        organization_id=of.organization_id,
        agent_id=of.id,
        contact_id=None,
        channel=Channel.SMS,
        direction=Direction.INBOUND,
        subject="",
        body="Hello",
        attachments=(Attachment("a.png", "image/png", "https://example.com/a.png"),),
        status=MessageStatus.RECEIVED,
        created_at=NOW,
    )
    return replace(plain, **fields)


def project(of: Agent, **fields: Any) -> Project:
    plain = Project(new_id(), of.organization_id, of.id, "Move", "", ProjectStatus.ACTIVE, NOW, NOW)
    return replace(plain, **fields)


def document(of: Agent, **fields: Any) -> Document:
    plain = Document(new_id(), of.organization_id, of.id, None, "Notes", "text", "text/plain", NOW, NOW)
    return replace(plain, **fields)


async def queued(pool: Pool, of: Agent) -> list[tuple[str, str]]:
    rows = await pool.fetch("SELECT source, title FROM notification WHERE agent_id = $1", of.id)
    return [tuple(row) for row in rows]


async def test_a_message_that_comes_in_is_in_the_queue_and_moves_its_agent(
    messages: Messages, told: Told, pool: Pool, scout: Agent
) -> None:
    new = message(scout)
    notice = new_notification(scout.id, source=Source.SMS, title="New sms")

    await messages.receive(new, notice, {scout.organization_id})

    assert await messages.get(new.id) == new
    assert await queued(pool, scout) == [("sms", "New sms")]
    assert await pool.fetchval("SELECT wake_seq FROM agent_state WHERE agent_id = $1", scout.id) == 1
    assert told.agent_ids == [scout.id]


async def test_neither_message_nor_notification_is_stored_alone(
    messages: Messages, told: Told, pool: Pool, scout: Agent
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
    assert told.agent_ids == []


async def test_a_message_to_an_agent_whose_state_is_held_for_long_is_refused_whole(
    messages: Messages, pool: Pool, scout: Agent
) -> None:
    async with pool.transaction() as holder:
        await holder.execute(LOCK_STATE, scout.id)
        with pytest.raises(RowLocked):
            await messages.receive(message(scout), new_notification(scout.id), {scout.organization_id})

    assert await pool.fetchval("SELECT count(*) FROM message") == 0


async def test_messages_to_one_agent_at_once_are_all_stored(
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


async def test_messages_are_filtered_and_paged_from_the_newest(
    messages: Messages, pool: Pool, scout: Agent
) -> None:
    ada = contact(scout)
    await Contacts(pool).insert(ada)
    stored = [
        message(scout, contact_id=ada.id),
        message(scout, channel=Channel.EMAIL, created_at=NOW + SECOND),
        message(scout, direction=Direction.OUTBOUND, created_at=NOW + 2 * SECOND),
    ]
    for each in stored:
        await messages.insert(each)
    first, second, third = stored

    async def found(page: Page | None = None, **filters: Any) -> list[Message]:
        return await messages.page(MessageFilters((scout.organization_id,), **filters), page or Page())

    assert await found() == [third, second, first]
    assert await found(Page(after=(third.created_at, third.id), limit=1)) == [second]
    assert await found(contact_id=ada.id) == [first]
    assert await found(channel=Channel.EMAIL) == [second]
    assert await found(direction=Direction.OUTBOUND) == [third]
    assert await found(agent_id=new_id()) == []


async def test_the_channel_of_an_answer_is_that_of_the_last_message(
    messages: Messages, pool: Pool, scout: Agent
) -> None:
    ada = contact(scout)
    await Contacts(pool).insert(ada)
    assert await messages.last_channel(scout.id, ada.id) is None

    for number, channel in enumerate((Channel.EMAIL, Channel.MMS)):
        await messages.insert(
            message(scout, contact_id=ada.id, channel=channel, created_at=NOW + number * SECOND)
        )
    await messages.insert(
        message(scout, contact_id=ada.id, direction=Direction.OUTBOUND, created_at=NOW + HOUR)
    )

    assert await messages.last_channel(scout.id, ada.id) is Channel.MMS
    assert await messages.last_channel(new_id(), ada.id) is None


async def test_a_message_outlives_its_contact(messages: Messages, pool: Pool, scout: Agent) -> None:
    ada = contact(scout)
    await Contacts(pool).insert(ada)
    new = message(scout, contact_id=ada.id)
    await messages.insert(new)

    assert await Contacts(pool).delete(ada.id)

    assert await messages.get(new.id) == replace(new, contact_id=None)
    changed = await messages.update(new.id, {"status": MessageStatus.FAILED, "attachments": ()})
    assert changed == replace(new, contact_id=None, status=MessageStatus.FAILED, attachments=())
    assert await messages.delete(new.id)
    assert not await messages.delete(new.id)
    assert await messages.update(new.id, {"body": "x"}) is None


async def test_contacts_are_changed_listed_and_deleted(pool: Pool, scout: Agent) -> None:
    contacts = Contacts(pool)
    ada, everybodys = contact(scout), contact(scout, agent_id=None, created_at=NOW + SECOND)
    await contacts.insert(ada)
    await contacts.insert(everybodys)
    filters = ContactFilters((scout.organization_id,))

    assert await contacts.page(filters, Page()) == [everybodys, ada]
    assert await contacts.page(replace(filters, agent_id=scout.id), Page()) == [ada]
    assert await contacts.page(filters, Page(after=(everybodys.created_at, everybodys.id))) == [ada]
    assert await contacts.update(ada.id, {"name": "Eve", "agent_id": None}) == replace(
        ada, name="Eve", agent_id=None
    )
    assert await contacts.delete(ada.id)
    assert await contacts.get(ada.id) is None
    with pytest.raises(ReferenceMissing, match="agent"):
        await contacts.update(everybodys.id, {"agent_id": new_id()})


async def test_documents_and_projects_know_when_they_were_changed(pool: Pool, scout: Agent) -> None:
    documents, projects = Documents(pool), Projects(pool)
    move = project(scout)
    await projects.insert(move)
    notes, loose = document(scout, project_id=move.id), document(scout, created_at=NOW + SECOND)
    await documents.insert(notes)
    await documents.insert(loose)

    changed = await documents.update(notes.id, {"content": "more"}, NOW + HOUR)
    done = await projects.update(move.id, {"status": ProjectStatus.DONE}, NOW + HOUR)

    assert changed == replace(notes, content="more", updated_at=NOW + HOUR)
    assert done == replace(move, status=ProjectStatus.DONE, updated_at=NOW + HOUR)
    assert await documents.update(notes.id, {}, NOW + 2 * HOUR) == changed
    by_project = DocumentFilters((scout.organization_id,), project_id=move.id)
    assert await documents.page(by_project, Page()) == [changed]
    assert await documents.page(DocumentFilters((scout.organization_id,)), Page()) == [loose, changed]
    by_status = ProjectFilters((scout.organization_id,), status=ProjectStatus.DONE)
    assert await projects.page(by_status, Page()) == [done]
    assert await projects.page(replace(by_status, status=ProjectStatus.ACTIVE), Page()) == []
    assert await projects.delete(move.id)
    assert await documents.get(notes.id) == replace(
        notes, content="more", project_id=None, updated_at=NOW + HOUR
    )
    assert await documents.delete(notes.id)


async def test_what_a_deleted_agent_leaves_behind_is_not_found_and_goes(
    messages: Messages, pool: Pool, scout: Agent
) -> None:
    contacts, documents, projects = Contacts(pool), Documents(pool), Projects(pool)
    ada, new, notes, move = contact(scout), message(scout), document(scout), project(scout)
    kept = contact(scout, agent_id=None)
    await contacts.insert(ada)
    await contacts.insert(kept)
    await messages.insert(new)
    await documents.insert(notes)
    await projects.insert(move)

    await Agents(pool).delete(scout.id, NOW)

    assert await contacts.get(ada.id) is None
    assert await messages.get(new.id) is None
    assert await documents.get(notes.id) is None
    assert await projects.get(move.id) is None
    assert await contacts.page(ContactFilters((scout.organization_id,)), Page()) == [kept]
    assert [await Retention(pool).delete_leftovers(NOW, 3) for _ in range(3)] == [3, 1, 0]
    assert await contacts.get(kept.id) == kept
