"""Lists that tools read: what an agent reaches, page by page."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar
from uuid import UUID

from storage.channels.contacts import Contact
from storage.model import Agent
from storage.postgres.json_values import to_json
from storage.postgres.paging import Chunk, Page
from supervisors.tools.arguments import ToolError
from supervisors.tools.tool import PartialResult, ToolInvocation

Item = TypeVar("Item")
DEFAULT_LIMIT = 20
MAX_LIMIT = 100
MAX_LIST_BYTES = 32_768  # of all items; a single one may be longer
LIMIT = {"type": "integer", "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT}
AFTER = {"type": "string", "format": "uuid", "description": "Goes on after the item with this id."}


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


@dataclass(frozen=True, slots=True)
class ToolPage(Generic[Item]):
    """The first items of a list, ready for JSON; `has_more` tells whether others follow."""

    items: list[Item]
    has_more: bool

    def result(self) -> list[Item] | PartialResult:
        """Return the items, with a note if others follow."""
        return PartialResult(self.items, more("after", self.items[-1])) if self.has_more else self.items


def more(argument: str, last: Any) -> str:
    """Return the sentence that tells how to go on after the last item."""
    return f'There are more. To read on, call this again with {argument}="{last["id"]}".'


async def read_page(
    call: ToolInvocation,
    kind: str,
    get: Callable[[UUID], Awaitable[Resource | None]],
    fetch: Callable[[Page], Awaitable[Chunk[Item]]],
    serialize: Callable[[Item], dict[str, Any]],
    *,
    argument: str = "after",
    sorted_by: str = "created_at",
) -> ToolPage[dict[str, Any]]:
    """Return as many items as the argument `limit` and the bytes of a list allow.

    They follow the item of this kind that another argument names, if it is given. Raise ToolError if the
    agent does not reach that one.
    """
    limit = min(call.arguments.integer("limit", DEFAULT_LIMIT, minimum=1), MAX_LIMIT)
    after = None
    if call.arguments.given.get(argument) is not None:
        last = await named_resource(call, argument, kind, get)
        after = getattr(last, sorted_by), call.arguments.id(argument)
    chunk = await fetch(Page(after, limit + 1))
    items: list[dict[str, Any]] = []
    size = 0
    for item in chunk[:limit]:
        serialized = serialize(item)
        size += len(to_json(serialized))
        if items and size > MAX_LIST_BYTES:
            break
        items.append(serialized)
    return ToolPage(items, has_more=chunk.is_cut or len(items) < len(chunk))
