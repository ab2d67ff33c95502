"""Access to the resources that a path or a query refers to.

A filter by a resource of another organization is refused; a filter by an unknown id finds nothing.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar
from uuid import UUID

from aiohttp import web
from asyncpg import Record

from storage.model import Agent, Visibility
from storage.postgres.shared_reads import SharedReads
from storage.toolbox import Adapter
from supervisors.client_values import parse_integer
from web.access.auth import CALLER, Caller
from web.app_keys import ROOM, STORAGE
from web.errors import NotFound, PermissionDenied, require_found
from web.fields import MAX_INT32, parse_uuid

Resource = TypeVar("Resource")


class Owned(Protocol):
    """A resource that belongs to one organization."""

    @property
    def organization_id(self) -> UUID: ...


class OfAgent(Owned, Protocol):
    """A resource of one agent, or without one of all agents of its organization."""

    @property
    def agent_id(self) -> UUID | None: ...


Loaded = TypeVar("Loaded", covariant=True)


class GetById(Protocol[Loaded]):
    """The two steps of reading a resource by its id: see `storage.postgres.shared_reads`."""

    async def get_short(self, resource_id: UUID) -> Loaded | None: ...

    async def get_alone(self, resource_id: UUID) -> Loaded | None: ...


OwnedResource = TypeVar("OwnedResource", bound=Owned)
ResourceOfAgent = TypeVar("ResourceOfAgent", bound=OfAgent)


def path_id(request: web.Request, name: str = "id") -> UUID:
    """Return the id in the path. Raise NotFound for text that is no UUID."""
    return require_found(parse_uuid(request.match_info[name]))


def path_number(request: web.Request) -> int:
    """Return the number in the path. Raise NotFound for text that is no number from 1 on."""
    number = parse_integer(request.match_info["number"])
    if number is None or not 0 < number <= MAX_INT32:
        raise NotFound
    return number


async def load(request: web.Request, get: GetById[Resource], name: str = "id") -> Resource:
    """Return the resource whose id is in the path, of any organization. Raise NotFound if it does not exist.

    For resources that have an access rule of their own, which the handler must check. Short resources are
    read together; for a long one organizations wait for their turn.
    """
    resource_id = parse_uuid(request.match_info[name])
    if resource_id is None:
        raise NotFound
    resource = await get.get_short(resource_id)
    if resource is not None:
        return resource
    async with turn_to_read(request):
        return require_found(await get.get_alone(resource_id))


async def load_in_turn(request: web.Request, get: Callable[[UUID], Awaitable[Resource | None]]) -> Resource:
    """Like `load`, for what takes several statements to read: organizations always wait for their turn."""
    resource_id = path_id(request)
    async with turn_to_read(request):
        return require_found(await get(resource_id))


def turn_to_read(request: web.Request) -> AbstractAsyncContextManager[None]:
    """Wait for a turn of the caller's organization to read, and hold it in the block.

    Organizations read in turn, so that many reads of one leave connections to the database to others. Raise
    Unavailable if the turn does not come in time.
    """
    return request.app[ROOM].reading(request[CALLER].accountable)


async def load_owned(
    request: web.Request,
    caller: Caller,
    get: GetById[OwnedResource],
    require: Callable[[Caller, UUID], None] = Caller.require,
) -> OwnedResource:
    """Return the resource whose id is in the path.

    Raise NotFound if it does not exist, PermissionDenied if `require` refuses the caller its organization.
    """
    resource = await load(request, get)
    require(caller, resource.organization_id)
    return resource


async def delete_owned(
    request: web.Request,
    caller: Caller,
    store: Any,
    require: Callable[[Caller, UUID], None] = Caller.require,
) -> None:
    """Delete the resource whose id is in the path from its store. Raise the errors of `load_owned`."""
    resource = await load_owned(request, caller, store.get, require)
    if not await store.delete(resource.id):
        raise NotFound  # it was deleted in between


async def load_of_agent(
    request: web.Request, caller: Caller, get: GetById[ResourceOfAgent]
) -> ResourceOfAgent:
    """Return the resource whose id is in the path; a run reaches those of its agent and of all agents.

    Raise NotFound if it does not exist, PermissionDenied if the caller may not reach it.
    """
    resource = await load(request, get)
    caller.require_agent(resource.agent_id, resource.organization_id)
    return resource


async def load_row_of_agent(request: web.Request, caller: Caller, get: SharedReads[Any]) -> Record:
    """Return the row of the resource whose id is in the path, like `load_of_agent`, to be shown as it is."""
    row = await load(request, get.rows)
    caller.require_agent(row["agent_id"], row["organization_id"])
    return row


async def load_agent(request: web.Request, caller: Caller) -> Agent:
    """Return the agent whose id is in the path; a run reaches only its own agent.

    Raise NotFound if it does not exist, PermissionDenied if the caller may not reach it.
    """
    agent = await load(request, request.app[STORAGE].agents.get)
    caller.require_agent(agent.id, agent.organization_id)
    return agent


async def require_agent(request: web.Request, caller: Caller, agent_id: UUID | None) -> None:
    """Raise PermissionDenied for another organization's agent, and for any but a run's own agent."""
    if agent_id is None:
        return
    if caller.run is not None:
        caller.require_agent(agent_id, caller.run.organization_id)
        return
    organization_id = await request.app[STORAGE].agents.get_organization_id(agent_id)
    if organization_id is not None:
        caller.require(organization_id)


async def require_owned(
    caller: Caller, get: Callable[[UUID], Awaitable[OwnedResource | None]], resource_id: UUID | None
) -> None:
    """Raise PermissionDenied for another organization's resource."""
    resource = await get(resource_id) if resource_id else None
    if resource is not None:
        caller.require(resource.organization_id)


async def require_of_agent(
    caller: Caller, get: Callable[[UUID], Awaitable[ResourceOfAgent | None]], resource_id: UUID | None
) -> None:
    """Raise PermissionDenied for a resource of another organization, for a run also of another agent."""
    resource = await get(resource_id) if resource_id else None
    if resource is not None:
        caller.require_agent(resource.agent_id, resource.organization_id)


async def require_adapter(request: web.Request, caller: Caller, adapter_id: UUID | None) -> None:
    """Raise PermissionDenied for an adapter that the caller may not see."""
    adapter = await request.app[STORAGE].adapters.get(adapter_id) if adapter_id else None
    if adapter is not None:
        require_visible(caller, adapter)


def require_visible(caller: Caller, adapter: Adapter) -> None:
    """Raise PermissionDenied for another organization's private adapter."""
    if not may_see(caller, adapter):
        raise PermissionDenied


def may_see(caller: Caller, adapter: Adapter) -> bool:
    """Return whether the adapter is public or belongs to one of the caller's organizations."""
    return adapter.visibility is Visibility.PUBLIC or adapter.organization_id in caller.roles


async def require_organization(request: web.Request, caller: Caller, organization_id: UUID | None) -> None:
    """Raise PermissionDenied for an organization that the caller does not belong to."""
    if organization_id is None or organization_id in caller.roles:
        return
    if await request.app[STORAGE].organizations.get(organization_id) is not None:
        raise PermissionDenied


async def agent_of_path(request: web.Request, caller: Caller) -> UUID:
    """Return the id of the agent in the path; a run reaches only its own agent.

    Raise NotFound if it does not exist, PermissionDenied if the caller may not reach it.
    """
    agent_id = path_id(request)
    organization_id = require_found(await request.app[STORAGE].agents.get_organization_id(agent_id))
    caller.require_agent(agent_id, organization_id)
    return agent_id
