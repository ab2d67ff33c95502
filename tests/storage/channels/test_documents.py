"""Documents: listing, updating and deleting them."""

import asyncio
from dataclasses import replace

import pytest

from storage.agents.agents import Agents
from storage.channels.documents import (
    MAX_VERSIONS,
    Document,
    DocumentFilters,
    Documents,
    DocumentVersions,
    Writer,
)
from storage.channels.projects import Projects
from storage.errors import NotUnique, ReferenceMissing
from storage.ids import new_id
from storage.model import Agent
from storage.postgres.paging import Page
from storage.postgres.pool import Pool
from tests.storage.channels.resources import document, project
from tests.storage.factories import HOUR, NOW, SECOND, stored_agent
from tests.storage.listed import listed_page

ADA = Writer("user:ada")


async def test_update_of_document_sets_its_time_and_version(pool: Pool, scout: Agent) -> None:
    documents = Documents(pool)
    notes = document(scout)
    await documents.insert(notes)

    changed = await documents.update(notes, {"content": "more"}, ADA, NOW + HOUR)

    assert changed == replace(notes, content="more", updated_at=NOW + HOUR, version=2, author="user:ada")
    assert await documents.get(notes.id) == changed
    assert await documents.update(changed, {}, ADA, NOW + 2 * HOUR) == changed
    assert await documents.update(document(scout), {"content": "more"}, ADA, NOW) is None


async def test_move_of_document_makes_no_version(pool: Pool, scout: Agent) -> None:
    documents = Documents(pool)
    notes = document(scout)
    await documents.insert(notes)

    moved = await documents.update(notes, {"path": "/memories/notes"}, ADA, NOW + HOUR)

    assert moved == replace(notes, path="/memories/notes", updated_at=NOW + HOUR)
    assert len(await DocumentVersions(pool).list_all(notes.id)) == 1


async def test_page_filters_documents_newest_first(pool: Pool, scout: Agent) -> None:
    documents, move = Documents(pool), project(scout)
    await Projects(pool).insert(move)
    notes = document(scout, project_id=move.id, path="/memories/notes")
    loose = document(scout, created_at=NOW + SECOND)
    gone = document(scout)
    for new in (notes, loose, gone):
        await documents.insert(new)
    deleted = await documents.update(gone, {"deleted_at": NOW}, ADA, NOW)
    filters = DocumentFilters((scout.organization_id,))

    assert await listed_page(documents, Document, filters) == [loose, notes]
    assert await listed_page(documents, Document, filters, Page(after=(loose.created_at, loose.id))) == [
        notes
    ]
    assert await listed_page(documents, Document, replace(filters, project_id=move.id)) == [notes]
    assert await listed_page(documents, Document, replace(filters, path="/memories/notes")) == [notes]
    assert await listed_page(documents, Document, replace(filters, is_deleted=True)) == [deleted]
    assert await listed_page(documents, Document, replace(filters, agent_id=new_id())) == []


async def test_document_outlives_its_project_until_it_is_deleted(pool: Pool, scout: Agent) -> None:
    documents, projects, move = Documents(pool), Projects(pool), project(scout)
    await projects.insert(move)
    notes = document(scout, project_id=move.id)
    await documents.insert(notes)

    assert await projects.delete(move.id)

    assert await documents.get(notes.id) == replace(notes, project_id=None)
    await documents.update(notes, {"content": "more"}, ADA, NOW)
    assert await documents.delete(notes.id)
    assert not await documents.delete(notes.id)
    assert await DocumentVersions(pool).list_all(notes.id) == []


async def test_document_of_unknown_agent_or_project_is_refused(pool: Pool, scout: Agent) -> None:
    for field in ("agent", "project"):
        with pytest.raises(ReferenceMissing, match=field):
            await Documents(pool).insert(document(scout, **{f"{field}_id": new_id()}))


async def test_path_is_unique_among_the_documents_of_an_agent(pool: Pool, scout: Agent) -> None:
    documents = Documents(pool)
    first, other = document(scout, path="/memories/a"), document(scout, path="/memories/b")
    await documents.insert(first)
    await documents.insert(other)

    with pytest.raises(NotUnique):
        await documents.insert(document(scout, path="/memories/a"))
    with pytest.raises(NotUnique):
        await documents.update(other, {"path": "/memories/a"}, ADA, NOW)
    await documents.insert(document(await stored_agent(pool, scout.organization_id), path="/memories/a"))
    await documents.update(first, {"deleted_at": NOW}, ADA, NOW)
    await documents.insert(document(scout, path="/memories/a"))


async def test_versions_tell_who_wrote_what_and_when(pool: Pool, scout: Agent) -> None:
    documents, versions, run_id = Documents(pool), DocumentVersions(pool), new_id()
    notes = document(scout, author="key:k")
    await documents.insert(notes)
    await documents.update(notes, {"content": "äöü", "title": "New"}, Writer("agent:a", run_id), NOW + HOUR)
    await documents.update(notes, {"content": "more"}, ADA, NOW + 2 * HOUR)

    listed = await versions.list_all(notes.id)
    first, second = await versions.get(notes.id, 1), await versions.get(notes.id, 2)

    assert [(v.number, v.title, v.size_bytes, v.author, v.run_id, v.created_at) for v in listed] == [
        (3, "New", 4, "user:ada", None, NOW + 2 * HOUR),
        (2, "New", 6, "agent:a", run_id, NOW + HOUR),
        (1, "Notes", 4, "key:k", None, NOW),
    ]
    assert first is not None
    assert (first.number, first.title, first.content) == (1, "Notes", "text")
    assert second is not None
    assert second.content == "äöü"
    assert await versions.get(notes.id, 4) is None


async def test_document_keeps_a_bounded_number_of_versions(pool: Pool, scout: Agent) -> None:
    documents, notes = Documents(pool), document(scout)
    await documents.insert(notes)
    for number in range(MAX_VERSIONS + 5):
        await documents.update(notes, {"content": str(number)}, ADA, NOW)

    numbers = [version.number for version in await DocumentVersions(pool).list_all(notes.id)]

    assert numbers == list(range(MAX_VERSIONS + 6, 6, -1))


async def test_concurrent_updates_keep_every_version(pool: Pool, scout: Agent) -> None:
    documents, notes = Documents(pool), document(scout)
    await documents.insert(notes)

    await asyncio.gather(
        *(documents.update(notes, {"content": str(number)}, ADA, NOW) for number in range(20))
    )

    listed = await DocumentVersions(pool).list_all(notes.id)
    kept = [await DocumentVersions(pool).get(notes.id, version.number) for version in listed]
    assert {version.content for version in kept if version} == {"text", *map(str, range(20))}
    assert [version.number for version in listed] == list(range(21, 0, -1))


async def test_update_expecting_an_old_version_changes_nothing(pool: Pool, scout: Agent) -> None:
    documents, notes = Documents(pool), document(scout)
    await documents.insert(notes)

    changed = await asyncio.gather(
        *(documents.update(notes, {"content": str(n)}, ADA, NOW, expected_version=1) for n in range(10))
    )

    [winner] = [document for document in changed if document]
    assert await documents.get(notes.id) == winner
    assert len(await DocumentVersions(pool).list_all(notes.id)) == 2


async def test_document_takes_the_language_of_its_agent(pool: Pool, scout: Agent) -> None:
    agents, documents = Agents(pool), Documents(pool)
    await agents.update(scout.id, {"language": "german"}, NOW)
    notes, shared = document(scout), document(scout, agent_id=None)
    await documents.insert(notes)
    await documents.insert(shared)
    await documents.update(shared, {"agent_id": scout.id}, ADA, NOW)
    assert await languages(pool) == {notes.id: "german", shared.id: "german"}

    await agents.update(scout.id, {"language": "english"}, NOW)
    await documents.update(notes, {"content": "more"}, ADA, NOW)

    assert await languages(pool) == {notes.id: "english", shared.id: "german"}


async def languages(pool: Pool) -> dict[object, str]:
    return {row["id"]: row["language"] for row in await pool.fetch("SELECT id, language FROM document")}
