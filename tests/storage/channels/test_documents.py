"""Documents: updating and deleting them, and their versions."""

import asyncio
from dataclasses import replace

from storage.agents.agents import Agents
from storage.channels.documents import (
    Documents,
    Writer,
)
from storage.channels.projects import Projects
from storage.model import Agent
from storage.postgres.pool import Pool
from storage.versions import MAX_VERSIONS, Versions
from tests.storage.channels.resources import document, project
from tests.storage.factories import HOUR, NOW

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
    assert await Versions(pool).list_all(notes.id) == []


async def test_document_keeps_a_bounded_number_of_versions(pool: Pool, scout: Agent) -> None:
    documents, notes = Documents(pool), document(scout)
    await documents.insert(notes)
    for number in range(MAX_VERSIONS + 5):
        await documents.update(notes, {"content": str(number)}, ADA, NOW)

    numbers = [version.number for version in await Versions(pool).list_all(notes.id)]

    assert numbers == list(range(MAX_VERSIONS + 6, 6, -1))


async def test_concurrent_updates_keep_every_version(pool: Pool, scout: Agent) -> None:
    documents, notes = Documents(pool), document(scout)
    await documents.insert(notes)

    await asyncio.gather(
        *(documents.update(notes, {"content": str(number)}, ADA, NOW) for number in range(20))
    )

    listed = await Versions(pool).list_all(notes.id)
    kept = [await Versions(pool).get(notes.id, version.number) for version in listed]
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
    assert len(await Versions(pool).list_all(notes.id)) == 2


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
