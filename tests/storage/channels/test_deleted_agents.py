"""The contacts, messages, documents and projects of a deleted agent."""

from storage.agents.agents import Agents
from storage.channels.contacts import ContactFilters, Contacts
from storage.channels.documents import Document, DocumentFilters, Documents
from storage.channels.messages import MessageFilters, Messages
from storage.channels.projects import ProjectFilters, Projects
from storage.model import Agent
from storage.postgres.paging import Page
from storage.postgres.pool import Pool
from storage.retention import Retention
from tests.storage.channels.resources import contact, document, message, project
from tests.storage.factories import NOW
from tests.storage.listed import listed_page


async def test_resources_of_deleted_agent_are_not_found_and_then_deleted(
    messages: Messages, pool: Pool, scout: Agent
) -> None:
    contacts, documents, projects = Contacts(pool), Documents(pool), Projects(pool)
    ada, new, notes, move = contact(scout), message(scout), document(scout), project(scout)
    shared = contact(scout, agent_id=None)
    await contacts.insert(ada)
    await contacts.insert(shared)
    await messages.insert(new)
    await documents.insert(notes)
    await projects.insert(move)

    await Agents(pool).delete(scout.id, NOW)

    assert await contacts.get(ada.id) is None
    assert await messages.get(new.id) is None
    assert await documents.get(notes.id) is None
    assert await projects.get(move.id) is None
    owner = (scout.organization_id,)
    assert await contacts.list_page(ContactFilters(owner), Page()) == [shared]
    assert await messages.list_page(MessageFilters(owner), Page()) == []
    assert await listed_page(documents, Document, DocumentFilters(owner)) == []
    assert await projects.list_page(ProjectFilters(owner), Page()) == []
    assert [await Retention(pool).delete_leftovers(NOW, 3) for _ in range(3)] == [3, 1, 0]
    assert await contacts.get(shared.id) == shared
