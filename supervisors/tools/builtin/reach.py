"""The resources that an agent reaches: its own, and those for all agents of its organization."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar
from uuid import UUID

from storage.channels.contacts import Contact
from storage.model import Agent
from supervisors.tools.errors import ToolError
from supervisors.tools.toolkit import ToolInvocation


class OfAgent(Protocol):
    """A resource of one agent, or without one of all agents of its organization."""

    @property
    def organization_id(self) -> UUID: ...
    @property
    def agent_id(self) -> UUID | None: ...


Resource = TypeVar("Resource", bound=OfAgent)


def reaches(agent: Agent, resource: OfAgent) -> bool:
    """Return whether the resource is the agent's own, or one for all agents of its organization."""
    return resource.organization_id == agent.organization_id and resource.agent_id in {None, agent.id}


async def named_resource(
    call: ToolInvocation, argument: str, kind: str, get: Callable[[UUID], Awaitable[Resource | None]]
) -> Resource:
    """Return the resource whose id is in the argument. Raise ToolError if the agent does not reach it."""
    resource_id = call.arguments.id(argument)
    resource = await get(resource_id)
    if resource is None or not reaches(call.agent, resource):
        raise ToolError("not_found", f"You have no {kind} {resource_id}.")
    return resource


async def named_correspondent(call: ToolInvocation) -> Contact:
    """Return the contact in `contact_id`: one that the agent reaches, or that has written to it.

    Raise ToolError for any other.
    """
    contact_id = call.arguments.id("contact_id")
    contact = await call.stores.contacts.get(contact_id)
    if contact is not None and contact.organization_id == call.agent.organization_id:
        if reaches(call.agent, contact):
            return contact
        if await call.stores.messages.get_last_origin(call.agent.id, contact_id) is not None:
            return contact
    raise ToolError("not_found", f"You have no contact {contact_id}.")
