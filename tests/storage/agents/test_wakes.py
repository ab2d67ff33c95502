"""Wakes: what an agent is told when it wakes, as one statement reads it."""

import asyncio
from datetime import timedelta
from typing import Any

import orjson
import pytest

from storage.agents.wakes import (
    BYTES_PER_MESSAGE,
    BYTES_PER_TOKEN,
    MAX_CONTACTS,
    MAX_NOTIFICATIONS,
    MAX_RUNS,
    MAX_SHARED_PART_BYTES,
    WakeFacts,
)
from storage.channels.contacts import Contact, Contacts
from storage.channels.documents import Writer
from storage.channels.memories import CORE
from storage.channels.messages import Channel, Direction, Message, MessageStatus
from storage.ids import new_id
from storage.model import Agent, CarryOver, Outcome, Priority, Source
from storage.postgres.pool import Pool
from storage.storage import Storage
from supervisors.clock import SystemClock
from tests.storage.factories import (
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    new_notification,
    stored_agent,
    stored_organization,
    template,
)

INSERT_RUN = """
INSERT INTO run (id, agent_id, organization_id, wake_reason, started_at, ended_at, outcome, journal)
VALUES ($1, $2, $3, 'reminder', $4, $5, $6, $7)
"""
START = "UPDATE agent_state SET run_id = $2, last_ended_at = $3 WHERE agent_id = $1"
END = "UPDATE agent_state SET last_ended_at = $2 WHERE agent_id = $1"
INSERT_DOCUMENT = """
INSERT INTO document (id, organization_id, agent_id, title, content, path, created_at, updated_at)
VALUES ($1, $2, $3, 'Core', $4, $5, $6, $6)
"""


@pytest.fixture
def storage(pool: Pool) -> Storage:
    return Storage(pool, lambda _: None, sleep=SystemClock().sleep)


async def wake(storage: Storage, agent: Agent, tokens: int = 4000) -> WakeFacts:
    facts = await storage.wakes.get(agent.id, NOW, tokens)
    assert facts is not None
    return facts


async def notify(storage: Storage, agent: Agent, **fields: Any) -> None:
    await storage.notifications.insert(new_notification(agent.id, **fields), {agent.organization_id})


async def contact(storage: Storage, agent: Agent, **fields: Any) -> Contact:
    values: dict[str, Any] = {
        "id": new_id(),
        "organization_id": agent.organization_id,
        "agent_id": None,
        "name": "Ann",
        "email": "",
        "phone": "",
        "metadata": {},
        "created_at": NOW,
    }
    stored = Contact(**values | fields)
    await Contacts(storage.pool).insert(stored)
    return stored


async def message(storage: Storage, agent: Agent, with_: Contact, body: str, **fields: Any) -> Message:
    values: dict[str, Any] = {
        "id": new_id(),
        "organization_id": agent.organization_id,
        "agent_id": agent.id,
        "contact_id": with_.id,
        "channel": Channel.SMS,
        "direction": Direction.INBOUND,
        "subject": "",
        "body": body,
        "attachments": (),
        "status": MessageStatus.RECEIVED,
        "created_at": NOW,
    }
    stored = Message(**values | fields)
    await storage.messages.insert(stored)
    return stored


async def test_get_returns_agent_template_and_organization(storage: Storage, pool: Pool) -> None:
    home = await stored_organization(pool, name="Acme")
    shared = template(home.id, tool_call_secret="whsec_1", context_tokens=900)
    await storage.templates.insert(shared)
    agent = await stored_agent(pool, home.id, template_id=shared.id, template_name="Concierge")

    facts = await wake(storage, agent)

    assert (facts.agent, facts.template) == (await storage.agents.get(agent.id), shared)
    assert facts.organization_name == "Acme"
    assert (facts.run, facts.last_ended_at, facts.core_memory) == (None, None, None)
    assert (facts.notifications, facts.conversations, facts.runs) == ((), (), ())
    assert await storage.wakes.get(new_id(), NOW, 4000) is None


async def test_agent_that_is_told_much_is_read_whole(storage: Storage, pool: Pool) -> None:
    agent = await stored_agent(pool)
    await notify(storage, agent, body="x" * (2 * MAX_SHARED_PART_BYTES))

    much, little = await asyncio.gather(
        storage.wakes.get(agent.id, NOW, 100_000), storage.wakes.get(agent.id, NOW, 4000)
    )

    assert much
    assert little
    assert len(much.notifications[0].body) == 2 * MAX_SHARED_PART_BYTES
    assert len(little.notifications[0].body) == 4000 * BYTES_PER_TOKEN


async def test_notifications_come_high_first_without_cleared_and_later_ones(
    storage: Storage, pool: Pool
) -> None:
    agent = await stored_agent(pool)
    await notify(storage, agent, title="low", priority=Priority.LOW, created_at=NOW - 3 * HOUR)
    await notify(storage, agent, title="first", created_at=NOW - 2 * HOUR, source=Source.PORTAL, body="Hi")
    await notify(storage, agent, title="second", created_at=NOW - HOUR)
    await notify(storage, agent, title="later", scheduled_for=NOW + HOUR)
    cleared = new_notification(agent.id, title="cleared")
    await storage.notifications.insert(cleared, {agent.organization_id})
    await storage.notifications.clear(agent.id, cleared.id, NOW)

    facts = await wake(storage, agent)

    assert [one.title for one in facts.notifications] == ["first", "second", "low"]
    first = facts.notifications[0]
    assert (first.source, first.priority, first.body, first.body_bytes) == (Source.PORTAL, "high", "Hi", 2)


async def test_notifications_are_bounded_in_number_and_bytes(storage: Storage, pool: Pool) -> None:
    agent = await stored_agent(pool)
    for number in range(MAX_NOTIFICATIONS + 5):
        await notify(storage, agent, body="ä" * 2000, created_at=NOW - HOUR + number * SECOND)

    facts = await wake(storage, agent, tokens=3000)

    assert len(facts.notifications) == MAX_NOTIFICATIONS + 1
    assert sum(len(one.body.encode()) for one in facts.notifications) <= 9000 + 4000
    assert all(one.body_bytes == 4000 for one in facts.notifications)


async def test_conversation_is_read_for_contact_of_notification(storage: Storage, pool: Pool) -> None:
    agent = await stored_agent(pool)
    other = await stored_agent(pool, agent.organization_id)
    ann, bob = await contact(storage, agent, phone="+4930123456"), await contact(storage, agent, name="Bob")
    await message(storage, agent, ann, "one", created_at=NOW - 2 * HOUR)
    reply = {"direction": Direction.OUTBOUND, "status": MessageStatus.SENT}
    await message(storage, agent, ann, "two", created_at=NOW - HOUR, **reply)
    await message(storage, other, ann, "for another agent")
    await message(storage, agent, bob, "three", created_at=NOW - 3 * HOUR)
    await pool.execute(END, agent.id, NOW - MINUTE)
    await notify(storage, agent, source=Source.SMS, source_id=str(ann.id))

    [talk] = (await wake(storage, agent)).conversations

    assert (talk.contact_id, talk.name, talk.phone) == (ann.id, "Ann", "+4930123456")
    assert [one.body for one in talk.messages] == ["two", "one"]
    assert [one.direction for one in talk.messages] == [Direction.OUTBOUND, Direction.INBOUND]


async def test_contacts_of_messages_since_the_last_run_are_concerned(storage: Storage, pool: Pool) -> None:
    agent = await stored_agent(pool)
    ann, bob = await contact(storage, agent), await contact(storage, agent, name="Bob")
    carl = await contact(storage, agent, name="Carl")
    await message(storage, agent, ann, "before", created_at=NOW - 2 * HOUR)
    await message(storage, agent, bob, "since", created_at=NOW - MINUTE)
    await notify(storage, agent, source=Source.SMS, source_id=str(carl.id))
    await pool.execute(END, agent.id, NOW - HOUR)

    assert [talk.name for talk in (await wake(storage, agent)).conversations] == ["Carl", "Bob"]


async def test_last_contact_is_concerned_if_no_other_is(storage: Storage, pool: Pool) -> None:
    agent = await stored_agent(pool)
    ann, bob = await contact(storage, agent), await contact(storage, agent, name="Bob")
    await message(storage, agent, ann, "old", created_at=NOW - 3 * HOUR)
    await message(storage, agent, bob, "newer", created_at=NOW - 2 * HOUR)
    await pool.execute(END, agent.id, NOW - HOUR)

    assert [talk.name for talk in (await wake(storage, agent)).conversations] == ["Bob"]


async def test_only_contacts_that_the_agent_sees_are_shown(storage: Storage, pool: Pool) -> None:
    agent, stranger = await stored_agent(pool), await stored_agent(pool)
    sibling = await stored_agent(pool, agent.organization_id)
    foreign = await contact(storage, stranger)
    of_sibling = await contact(storage, agent, agent_id=sibling.id)
    for source_id in (str(foreign.id), str(of_sibling.id), str(new_id()), "ticket-17", "0" * 36):
        await notify(storage, agent, source=Source.SMS, source_id=source_id)

    facts = await wake(storage, agent)

    assert len(facts.notifications) == 5
    assert facts.conversations == ()


async def test_contact_of_another_agent_that_writes_is_shown(storage: Storage, pool: Pool) -> None:
    scout = await stored_agent(pool)
    other = await stored_agent(pool, scout.organization_id)
    ann = await contact(storage, other, agent_id=other.id)
    await message(storage, other, ann, "to the other")
    await notify(storage, scout, source=Source.SMS, source_id=str(ann.id))
    assert (await wake(storage, scout)).conversations == ()

    await message(storage, scout, ann, "to the scout")
    [talk] = (await wake(storage, scout)).conversations
    assert [one.body for one in talk.messages] == ["to the scout"]


async def test_conversations_are_bounded_in_contacts_and_messages(storage: Storage, pool: Pool) -> None:
    agent = await stored_agent(pool)
    for number in range(MAX_CONTACTS + 2):
        ann = await contact(storage, agent, name=f"Contact {number}")
        await notify(storage, agent, source=Source.SMS, source_id=str(ann.id))
    for number in range(40):
        await message(storage, agent, ann, "x" * 50, created_at=NOW - HOUR + number * SECOND)
        await message(storage, agent, ann, "x" * 5000, created_at=NOW - HOUR + number * SECOND)

    facts = await wake(storage, agent, tokens=4000)

    assert len(facts.conversations) == MAX_CONTACTS
    talk = facts.conversations[0]
    assert talk.contact_id == ann.id
    assert 12_000 <= sum(len(one.body) for one in talk.messages) <= 12_000 + 5000


async def test_conversation_tells_whether_it_has_earlier_messages(storage: Storage, pool: Pool) -> None:
    agent = await stored_agent(pool)
    ann = await contact(storage, agent)
    few = 500 * BYTES_PER_TOKEN // BYTES_PER_MESSAGE
    for number in range(few):
        await message(storage, agent, ann, "Hello", created_at=NOW - HOUR + number * SECOND)
    [all_read] = (await wake(storage, agent, tokens=500)).conversations
    await message(storage, agent, ann, "Hello again")
    [talk] = (await wake(storage, agent, tokens=500)).conversations

    assert (len(all_read.messages), all_read.has_earlier) == (few, False)
    assert (len(talk.messages), talk.has_earlier) == (few, True)


async def test_template_with_few_tokens_has_the_fewest_that_tell_something(
    storage: Storage, pool: Pool
) -> None:
    home = await stored_organization(pool)
    shared = template(home.id, context_tokens=1)
    await storage.templates.insert(shared)
    agent = await stored_agent(pool, home.id, template_id=shared.id)
    await message(storage, agent, await contact(storage, agent), "Where is my parcel?")
    [talk] = (await wake(storage, agent)).conversations

    assert talk.messages[0].body == "Where is my parcel?"


async def test_core_memory_and_ended_runs_are_read(storage: Storage, pool: Pool) -> None:
    agent = await stored_agent(pool)
    content = "Ann likes tea.\n"
    place = (agent.organization_id, agent.id)
    await pool.execute(INSERT_DOCUMENT, new_id(), *place, content, CORE, NOW)
    await pool.execute(INSERT_DOCUMENT, new_id(), *place, "other", "/memories/other.md", NOW)
    for number in range(MAX_RUNS + 2):
        began = NOW - HOUR + timedelta(minutes=number)
        run = (new_id(), agent.id, agent.organization_id, began, began + SECOND)
        await pool.execute(INSERT_RUN, *run, Outcome.SLEPT, {"number": number})
    current = new_id()
    await pool.execute(INSERT_RUN, current, agent.id, agent.organization_id, NOW, None, None, None)
    await pool.execute(START, agent.id, current, NOW - MINUTE)

    facts = await wake(storage, agent)

    assert facts.core_memory is not None
    assert (facts.core_memory.content, facts.core_memory.bytes) == (content, len(content))
    assert [run.journal and orjson.loads(run.journal)["number"] for run in facts.runs] == [
        *range(MAX_RUNS + 1, 1, -1)
    ]
    assert facts.run is not None
    assert (facts.run.id, facts.run.wake_reason, facts.last_ended_at) == (current, "reminder", NOW - MINUTE)


async def test_stopped_run_is_told_with_the_reason_of_the_stop(storage: Storage, pool: Pool) -> None:
    agent = await stored_agent(pool)
    stopped = (new_id(), agent.id, agent.organization_id, NOW, NOW + SECOND, Outcome.STOPPED, None)
    await pool.execute(INSERT_RUN, *stopped)
    await pool.execute("UPDATE run SET error = 'stopped', stop_reason = 'Maintenance'")

    assert [run.error for run in (await wake(storage, agent)).runs] == ["Maintenance"]


async def test_deleted_core_memory_is_not_read(storage: Storage, pool: Pool) -> None:
    agent = await stored_agent(pool)
    place = (agent.organization_id, agent.id)
    for content in ("old", "new"):
        await pool.execute(INSERT_DOCUMENT, new_id(), *place, content, CORE, NOW)
        files = await storage.memories.list_files(agent.id, CORE)
        core = (await wake(storage, agent)).core_memory
        assert (core and core.content, len(files)) == (content, 1)
        await storage.memories.delete(files, Writer("agent:a"), NOW)
        assert (await wake(storage, agent)).core_memory is None


@pytest.mark.parametrize(
    ("carry_over", "told"), [(CarryOver.NONE, 0), (CarryOver.TRANSCRIPT, 1), (CarryOver.JOURNAL, 3)]
)
async def test_template_says_how_many_runs_are_told(
    storage: Storage, pool: Pool, carry_over: CarryOver, told: int
) -> None:
    home = await stored_organization(pool)
    shared = template(home.id, carry_over=carry_over)
    await storage.templates.insert(shared)
    agent = await stored_agent(pool, home.id, template_id=shared.id)
    for number in range(3):
        run = (new_id(), agent.id, home.id, NOW + number * SECOND, NOW + (number + 1) * SECOND)
        await pool.execute(INSERT_RUN, *run, Outcome.SLEPT, None)

    runs = (await wake(storage, agent)).runs

    assert [run.started_at for run in runs] == [NOW + (2 - number) * SECOND for number in range(told)]
