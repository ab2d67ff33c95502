"""Contacts, messages, documents and projects of an agent, stored for tests of its tools."""

from typing import Any

from storage.channels.contacts import Contact
from storage.channels.documents import Document, Writer
from storage.channels.messages import Message
from storage.channels.projects import Project
from storage.model import Agent
from supervisors.tools.arguments import ToolError
from tests.storage.channels import resources
from tests.storage.factories import NOW
from tests.supervisors.world import Puppet, World


async def stored_contact(world: World, of: Agent, **fields: Any) -> Contact:
    contact = resources.contact(of, **fields)
    await world.storage.contacts.insert(contact)
    return contact


async def stored_message(world: World, of: Agent, **fields: Any) -> Message:
    message = resources.message(of, **fields)
    await world.storage.messages.insert(message)
    return message


async def stored_document(world: World, of: Agent, **fields: Any) -> Document:
    document = resources.document(of, **fields)
    await world.storage.documents.insert(document)
    return document


async def deleted_document(world: World, of: Agent) -> Document:
    document = await stored_document(world, of)
    deleted = await world.storage.documents.update(document, {"deleted_at": NOW}, Writer("agent:x"), NOW)
    assert deleted is not None
    return deleted


async def stored_project(world: World, of: Agent, **fields: Any) -> Project:
    project = resources.project(of, **fields)
    await world.storage.projects.insert(project)
    return project


async def refusal(run: Puppet, tool: str, **arguments: Any) -> dict[str, Any]:
    """Return the error of a call that is refused, as the model sees it."""
    try:
        result = await run.call(tool, **arguments)
    except ToolError as error:
        return error.as_json()
    raise AssertionError(f"{tool} was not refused: {result}")
