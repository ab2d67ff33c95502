"""Documents: listing, updating and deleting them."""

from dataclasses import replace

import pytest

from storage.channels.documents import DocumentFilters, Documents
from storage.channels.projects import Projects
from storage.errors import ReferenceMissing
from storage.ids import new_id
from storage.model import Agent
from storage.postgres.paging import Page
from storage.postgres.pool import Pool
from tests.storage.channels.resources import document, project
from tests.storage.factories import HOUR, NOW, SECOND


async def test_update_of_document_sets_its_time(pool: Pool, scout: Agent) -> None:
    documents = Documents(pool)
    notes = document(scout)
    await documents.insert(notes)

    changed = await documents.update(notes.id, {"content": "more"}, NOW + HOUR)

    assert changed == replace(notes, content="more", updated_at=NOW + HOUR)
    assert await documents.update(notes.id, {}, NOW + 2 * HOUR) == changed
    assert await documents.update(new_id(), {"content": "more"}, NOW) is None


async def test_page_filters_documents_newest_first(pool: Pool, scout: Agent) -> None:
    documents, move = Documents(pool), project(scout)
    await Projects(pool).insert(move)
    notes, loose = document(scout, project_id=move.id), document(scout, created_at=NOW + SECOND)
    for new in (notes, loose):
        await documents.insert(new)
    filters = DocumentFilters((scout.organization_id,))

    assert await documents.list_page(filters, Page()) == [loose, notes]
    assert await documents.list_page(filters, Page(after=(loose.created_at, loose.id))) == [notes]
    assert await documents.list_page(replace(filters, project_id=move.id), Page()) == [notes]
    assert await documents.list_page(replace(filters, agent_id=new_id()), Page()) == []


async def test_document_outlives_its_project_until_it_is_deleted(pool: Pool, scout: Agent) -> None:
    documents, projects, move = Documents(pool), Projects(pool), project(scout)
    await projects.insert(move)
    notes = document(scout, project_id=move.id)
    await documents.insert(notes)

    assert await projects.delete(move.id)

    assert await documents.get(notes.id) == replace(notes, project_id=None)
    assert await documents.delete(notes.id)
    assert not await documents.delete(notes.id)


async def test_document_of_unknown_agent_or_project_is_refused(pool: Pool, scout: Agent) -> None:
    for field in ("agent", "project"):
        with pytest.raises(ReferenceMissing, match=field):
            await Documents(pool).insert(document(scout, **{f"{field}_id": new_id()}))
