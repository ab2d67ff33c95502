"""What tools read and write, in every store: the PostgreSQL one, and the one in memory."""

from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from storage.agents.agents import Child
from storage.channels.addresses import InvalidAddress
from storage.channels.documents import Document, SearchScope, Writer
from storage.channels.memories import DirectoryEntry
from storage.channels.messages import Channel, Direction, MessageFilters, MessageStatus, Origin
from storage.errors import NotUnique, ReferenceMissing
from storage.history.runs import RunFilters
from storage.ids import new_id
from storage.model import Agent
from storage.notifications.schedules import Schedule
from storage.postgres.paging import Page
from storage.toolbox import CHANNEL
from tests.storage.channels.resources import document, message
from tests.storage.factories import HOUR, MINUTE, NOW, agent, notice, schedule, usage_record
from tests.storage.stores import Store, end

WRITER = Writer("agent:scout", None)


async def test_contact_is_found_by_each_spelling_of_its_address(store: Store) -> None:
    owner = (await store.new_organization()).id
    contacts = store.storage.contacts
    phone = await contacts.normalize_address(owner, "+43 660 123 45 67")
    with pytest.raises(InvalidAddress):
        await contacts.normalize_address(owner, "ada@")
    assert await contacts.find(owner, phone) is None
    ada = await contacts.find_or_insert(owner, phone, NOW)
    assert await contacts.find_or_insert(owner, phone, NOW + HOUR) == ada
    assert await contacts.find(owner, phone) == await contacts.get(ada.id) == ada
    email = await contacts.normalize_address(owner, "Ada@Example.org")
    assert (await contacts.find_or_insert(owner, email, NOW)).id != ada.id
    bank = await contacts.find_or_insert(owner, await contacts.normalize_address(owner, "MyBank"), NOW)
    assert await contacts.find(owner, await contacts.normalize_address(owner, "MyBank")) == bank


async def test_messages_are_listed_by_their_time(store: Store) -> None:
    scout, other = await store.agent(), await store.agent()
    messages, owner = store.storage.messages, scout.organization_id
    ada = await store.storage.contacts.find_or_insert(owner, "+436601234567", NOW)
    assert await messages.get_last_origin(scout.id, ada.id) is None
    late = message(scout, contact_id=ada.id, address="+436601234567", created_at=NOW + HOUR)
    early = message(scout, contact_id=ada.id, channel=Channel.EMAIL)  # after the clock was set back
    sent = message(scout, direction=Direction.OUTBOUND, status=MessageStatus.SENT, created_at=NOW - HOUR)
    for each in (late, early, sent, message(other)):
        await messages.insert(each)
    own = MessageFilters((owner,), scout.id)
    assert await messages.list_page(own, Page(limit=10)) == [late, early, sent]
    assert await messages.list_page(own, Page(limit=1, after=(late.created_at, late.id))) == [early]
    assert await messages.list_page(replace(own, contact_id=ada.id), Page(limit=10)) == [late, early]
    assert await messages.get_last_origin(scout.id, ada.id) == Origin(Channel.SMS, "+436601234567")


async def test_only_queued_message_changes_its_status(store: Store) -> None:
    scout = await store.agent()
    messages, later = store.storage.messages, NOW + HOUR
    queued = message(scout, direction=Direction.OUTBOUND, status=MessageStatus.QUEUED)
    await messages.insert(queued)
    assert not await messages.requeue(queued.id, NOW, NOW)
    failed = await messages.update_queued(queued.id, MessageStatus.FAILED, NOW, error="No.")
    assert failed is MessageStatus.FAILED
    assert await messages.requeue(queued.id, NOW, NOW)
    for report in (MessageStatus.SENT, MessageStatus.FAILED):
        assert await messages.update_queued(queued.id, report, later) is MessageStatus.SENT
    assert not await messages.requeue(queued.id, later, later)
    stored = await messages.get(queued.id)
    assert stored is not None
    assert (stored.status, stored.error) == (MessageStatus.SENT, "")


async def test_tools_are_found_by_id_and_channel(store: Store) -> None:
    scout = await store.agent()
    tools, unknown = store.storage.agent_tools, new_id()
    refund = await store.new_tool(scout, "refund")
    sms = await store.new_tool(scout, "send_sms", handler=f"{CHANNEL}sms")
    assert [(each.id, each.name) for each in await tools.list_for_agent(scout.id)] == [(refund, "refund")]
    assert (await tools.describe([refund, unknown])).keys() == {refund}
    found, sender = await tools.get(scout.id, refund), await tools.get_channel(scout.id, "sms")
    assert found is not None
    assert sender is not None
    assert (found.name, found.handler, sender.id) == ("refund", "", sms)
    assert await tools.get(scout.id, unknown) is None
    assert await tools.get_channel(scout.id, "email") is None


async def test_schedule_is_saved_by_name(store: Store) -> None:
    scout, schedules = await store.agent(), store.storage.schedules
    daily, weekly = schedule(scout, name="daily"), schedule(scout, name="weekly")

    async def change(before: Schedule | None) -> Schedule:
        return daily if before is None else replace(before, title="Look again")

    async def new(before: Schedule | None) -> Schedule:
        assert before is None
        return weekly

    seen: list[Schedule] = []
    made = await schedules.save(scout.id, "daily", change, NOW)
    await schedules.save(scout.id, "weekly", new, NOW, allow=seen.extend)
    changed = await schedules.save(scout.id, "daily", change, NOW)
    assert (made.id, changed.id, changed.title) == (daily.id, daily.id, "Look again")
    assert [each.id for each in seen] == [daily.id]
    assert [each.title for each in await schedules.list_of_agent(scout.id)] == ["Look again", weekly.title]
    assert await schedules.delete(daily.id, NOW)
    assert not await schedules.delete(daily.id, NOW)
    assert [each.name for each in await schedules.list_of_agent(scout.id)] == ["weekly"]


async def test_documents_are_written_in_versions(store: Store) -> None:
    scout, documents = await store.agent(), store.storage.documents
    note = await written(store, scout, title="Note", content="Ada drinks tea")
    changed = await documents.update(note, {"content": "Ada drinks coffee"}, WRITER, NOW + HOUR, 1)
    assert changed == replace(
        note, content="Ada drinks coffee", updated_at=NOW + HOUR, version=2, author=WRITER.author
    )
    assert await documents.update(note, {"content": "Late"}, WRITER, NOW + HOUR, 1) is None
    moved = await documents.update(changed, {"path": "/memories/ada.md"}, Writer("user:eve"), NOW + 2 * HOUR)
    assert moved == replace(changed, path="/memories/ada.md", updated_at=NOW + 2 * HOUR)
    assert await documents.get(note.id) == moved
    assert await documents.update(document(scout), {"content": "None"}, WRITER, NOW) is None


async def test_documents_that_agent_sees_are_listed_newest_first(store: Store) -> None:
    scout, documents = await store.agent(), store.storage.documents
    other = await store.agent(scout.organization_id)
    own = await written(store, scout, title="Own", content="Grüße")
    newer = await written(store, scout, title="Newer", created_at=NOW + HOUR)
    await written(store, other, title="Foreign")
    shared = await written(store, scout, title="Shared", agent_id=None, created_at=NOW + MINUTE)
    titles = await documents.list_titles(scout.id, None, Page(limit=10))
    assert [(each.id, each.title) for each in titles] == [
        (newer.id, "Newer"),
        (shared.id, "Shared"),
        (own.id, "Own"),
    ]
    assert titles[-1].size_bytes == len("Grüße".encode())
    after = await documents.list_titles(scout.id, None, Page((newer.created_at, newer.id), 1))
    assert [each.title for each in after] == ["Shared"]


async def test_documents_with_most_words_are_found_first(store: Store) -> None:
    scout, documents = await store.agent(), store.storage.documents
    other = await store.agent(scout.organization_id)
    await written(store, scout, title="Ada", content="Her parcel went to Vienna")
    await written(store, scout, title="Eve", content="A parcel is lost")
    await written(store, scout, title="Bob", content="Nothing")
    await written(store, other, title="Foreign", content="The parcel of Vienna")
    scope = SearchScope.of(scout)
    assert [each.title for each in await documents.search(scope, "Vienna parcel", 10)] == ["Ada", "Eve"]
    assert [each.title for each in await documents.search(scope, "Vienna parcel", 1)] == ["Ada"]
    assert await documents.search(scope, "!", 10) == []


async def test_memories_are_found_by_path(store: Store) -> None:
    scout, memories = await store.agent(), store.storage.memories
    other = await store.agent(scout.organization_id)
    ada = await written(store, scout, path="/memories/people/ada.md", content="tea")
    deep = await written(store, scout, path="/memories/people/x/y.md", content="four")
    core = await written(store, scout, path="/memories/core.md", content="Grüße")
    await written(store, other, path="/memories/core.md")
    await written(store, scout, title="No memory")
    with pytest.raises(NotUnique):
        await written(store, scout, path="/memories/core.md")
    assert await memories.get(scout.id, "/memories/core.md") == core
    assert await memories.get(scout.id, "/memories/people") is None
    assert await memories.list_directory(scout.id, "/memories", 10) == [
        DirectoryEntry("core.md", "", False, 7),
        DirectoryEntry("people", "ada.md", False, 3),
        DirectoryEntry("people", "x", True, 4),
    ]
    assert len(await memories.list_directory(scout.id, "/memories", 2)) == 2
    below = await memories.list_files(scout.id, "/memories/people")
    assert [(each.id, each.path) for each in below] == [(ada.id, ada.path), (deep.id, deep.path)]
    assert [each.id for each in await memories.list_files(scout.id, "/memories/core.md")] == [core.id]
    find = partial(memories.find_conflict, scout.id)
    assert await find("/memories/core.md/more.md") == "/memories/core.md"
    assert await find("/memories/people") in {ada.path, deep.path}
    assert await find("/memories/people/eve.md") is None


async def test_memories_are_renamed_and_deleted_together(store: Store) -> None:
    scout, memories = await store.agent(), store.storage.memories
    await written(store, scout, path="/memories/a/x.md", title="x.md")
    await written(store, scout, path="/memories/a/y.md", title="y.md")
    await written(store, scout, path="/memories/core.md", title="core.md")
    files = await memories.list_files(scout.id, "/memories/a")
    assert await memories.rename(files, "/memories/a", "/memories/b", "b")
    assert not await memories.rename(files, "/memories/a", "/memories/c", "c")
    [x, y] = await memories.list_files(scout.id, "/memories/b")
    with pytest.raises(NotUnique):
        await memories.rename([x], "/memories/b/x.md", "/memories/core.md", "core.md")
    assert await memories.rename([x], "/memories/b/x.md", "/memories/z.md", "z.md")
    stored = await store.storage.documents.get(x.id)
    assert stored is not None
    assert (stored.path, stored.title, stored.version) == ("/memories/z.md", "z.md", 1)
    await memories.delete([y], WRITER, NOW + HOUR)
    deleted = await store.storage.documents.get(y.id)
    assert deleted is not None
    assert (deleted.content, deleted.deleted_at, deleted.version) == ("", NOW + HOUR, 2)
    assert await memories.list_files(scout.id, "/memories/b") == []
    assert not await store.storage.documents.search(SearchScope.of(scout), "y.md", 10)
    await written(store, scout, path="/memories/b/y.md")


async def written(store: Store, of: Agent, **fields: Any) -> Document:
    stored = document(of, **fields)
    await store.storage.documents.insert(stored)
    return stored


async def test_child_gets_part_of_cap_and_is_told_of(store: Store) -> None:
    parent = await store.agent(max_cost_usd_per_day=Decimal(10))
    await store.storage.usage.insert(usage_record(parent, cost_usd=Decimal(4), occurred_at=NOW))
    asked: list[tuple[Decimal, Decimal]] = []

    def share(cap: Decimal, left: Decimal) -> Decimal:
        asked.append((cap, left))
        return Decimal(1)

    async def insert(name: str) -> Child:
        child = agent(parent.organization_id, parent_id=parent.id, name=name, created_at=NOW)
        return await store.storage.agents.insert_child(child, notice(parent), share, actor="agent:scout")

    made, again = await insert("Helper"), await insert("Helper")
    assert (made.agent.max_cost_usd_per_day, made.parent_cap) == (Decimal(1), Decimal(9))
    assert (again.agent.id, again.parent_cap) == (made.agent.id, Decimal(9))
    assert asked == [(Decimal(10), Decimal(6))]
    found = await store.storage.agents.get(parent.id)
    assert found is not None
    assert found.max_cost_usd_per_day == 9
    told = await store.storage.notifications.list_for_agent(
        parent.id, include_cleared=False, limit=10, now=NOW
    )
    assert len(told) == 1
    assert (await insert("Other")).agent.id != made.agent.id


async def test_child_of_unknown_agent_is_refused(store: Store) -> None:
    owner = await store.new_organization()
    child = agent(owner.id, parent_id=new_id())
    with pytest.raises(ReferenceMissing, match="parent"):
        await store.storage.agents.insert_child(child, None, lambda cap, left: cap, actor="agent:scout")


async def test_runs_are_listed_newest_first(store: Store) -> None:
    scout, ids = await store.agent(), list[UUID]()
    await store.started(await store.agent())
    for hour in range(3):
        begun = await store.started(scout, NOW + hour * HOUR)
        assert begun.run_id is not None
        ids.insert(0, begun.run_id)
        assert await store.storage.agent_states.update(end(begun, NOW + hour * HOUR + MINUTE))
    filters = RunFilters(agent_id=scout.id)
    assert [each.id for each in await store.storage.runs.list_page(filters, Page(limit=10))] == ids
    after = Page((NOW + 2 * HOUR, ids[0]), 1)
    assert [each.id for each in await store.storage.runs.list_page(filters, after)] == ids[1:2]
