"""The agent, contact and project that a body refers to: they must exist, in one organization."""

from collections.abc import Awaitable, Callable, Mapping, Set
from typing import Any, NamedTuple
from uuid import UUID

from aiohttp import web

from storage.storage import Storage
from web.access.auth import Caller, requested_organization
from web.access.path_access import OfAgent, OwnedResource
from web.app_keys import STORAGE
from web.errors import Invalid, PermissionDenied
from web.fields import unknown_id


class _Owner(NamedTuple):
    """The owner of what a body names; without an agent it belongs to all agents of the organization."""

    organization_id: UUID
    agent_id: UUID | None


async def load_named(
    caller: Caller, get: Callable[[UUID], Awaitable[OwnedResource | None]], field: str, resource_id: UUID
) -> OwnedResource:
    """Return the resource that a body names in `field`.

    Raise Invalid if it does not exist, PermissionDenied if it belongs to another organization.
    """
    resource = await get(resource_id)
    if resource is None:
        raise Invalid({field: [unknown_id(resource_id)]})
    if not caller.acts_for(resource.organization_id):
        raise caller.refusal()
    return resource


async def organization_for_new(request: web.Request, caller: Caller, body: Mapping[str, Any]) -> UUID:
    """Return the organization of a new resource: that of the resources its body names, else the caller's.

    Raise Invalid for ids that do not exist, PermissionDenied for those of another organization or of several.
    """
    owners = await _owners(request.app[STORAGE], body)
    for owner in owners:
        caller.require_agent(owner.agent_id, owner.organization_id)
    return single_organization(request, caller, {owner.organization_id for owner in owners})


def single_organization(request: web.Request, caller: Caller, owners: Set[UUID]) -> UUID:
    """Return the organization of what a body names, `owners`; if it names nothing, the requested one.

    Raise PermissionDenied if `owners` are several, foreign, or another than X-Organization names.
    """
    for owner in owners:
        if not caller.acts_for(owner):
            raise caller.refusal()
    if len(owners) > 1:
        raise PermissionDenied("The body names resources of several organizations.")
    if not owners:
        return requested_organization(request, caller)
    return next(iter(owners))


async def require_same_owner(
    request: web.Request, caller: Caller, resource: OfAgent, changes: Mapping[str, Any]
) -> None:
    """Raise Invalid for ids that do not exist, PermissionDenied for those of other organizations.

    A run may not name what belongs to another agent, and not give the resource to other agents, either.
    """
    owners = await _owners(request.app[STORAGE], changes)
    if any(owner.organization_id != resource.organization_id for owner in owners):
        raise PermissionDenied
    if caller.run is None:
        return
    for owner in owners:
        caller.require_agent(owner.agent_id, owner.organization_id)
    if changes.get("agent_id", resource.agent_id) != resource.agent_id:
        raise PermissionDenied("The token of a run may not change the agent.")


async def _owners(storage: Storage, body: Mapping[str, Any]) -> set[_Owner]:
    """Return the owners of the agent, the contact and the project that a body names."""
    owners: set[_Owner] = set()
    unknown: dict[str, list[str]] = {}
    for field in ("agent", "contact", "project"):
        resource_id = body.get(f"{field}_id")
        if resource_id is None:
            continue
        owner = await _owner(storage, field, resource_id)
        if owner is None:
            unknown[field] = [unknown_id(resource_id)]
        else:
            owners.add(owner)
    if unknown:
        raise Invalid(unknown)
    return owners


async def _owner(storage: Storage, field: str, resource_id: UUID) -> _Owner | None:
    if field == "agent":
        organization_id = await storage.agents.get_organization_id(resource_id)
        return None if organization_id is None else _Owner(organization_id, resource_id)
    resource = await (storage.contacts if field == "contact" else storage.projects).get(resource_id)
    return _Owner(resource.organization_id, resource.agent_id) if resource else None
