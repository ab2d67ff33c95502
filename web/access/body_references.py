"""The agent, contact and project that a body refers to: they must exist, in one organization."""

from collections.abc import Awaitable, Callable, Mapping, Set
from typing import Any
from uuid import UUID

from aiohttp import web

from storage.storage import Storage
from web.access.auth import Caller, requested_organization
from web.access.path_access import OwnedResource
from web.app_keys import STORAGE
from web.errors import Invalid, PermissionDenied
from web.fields import unknown_id


async def load_named(
    caller: Caller, get: Callable[[UUID], Awaitable[OwnedResource | None]], field: str, resource_id: UUID
) -> OwnedResource:
    """Return the resource that a body names in `field`.

    Raise Invalid if it does not exist, PermissionDenied if it belongs to another organization.
    """
    resource = await get(resource_id)
    if resource is None:
        raise Invalid({field: [unknown_id(resource_id)]})
    caller.require(resource.organization_id)
    return resource


async def organization_for_new(request: web.Request, caller: Caller, body: Mapping[str, Any]) -> UUID:
    """Return the organization of a new resource: that of the resources its body names, else the caller's.

    Raise Invalid for ids that do not exist, PermissionDenied for those of another organization or of several.
    """
    return single_organization(request, caller, await _owners(request.app[STORAGE], body))


def single_organization(request: web.Request, caller: Caller, owners: Set[UUID]) -> UUID:
    """Return the organization of what a body names, `owners`; if it names nothing, the requested one.

    Raise PermissionDenied if `owners` are several, foreign, or another than X-Organization names.
    """
    for owner in owners:
        caller.require(owner)
    if len(owners) > 1:
        raise PermissionDenied("The body names resources of several organizations.")
    if not owners:
        return requested_organization(request, caller)
    return next(iter(owners))


async def require_same_organization(
    request: web.Request, organization_id: UUID, changes: Mapping[str, Any]
) -> None:
    """Raise Invalid for ids that do not exist, PermissionDenied for those of other organizations."""
    if await _owners(request.app[STORAGE], changes) - {organization_id}:
        raise PermissionDenied


async def _owners(storage: Storage, body: Mapping[str, Any]) -> set[UUID]:
    """Return the organizations of the agent, the contact and the project that a body names."""
    owners: set[UUID] = set()
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


async def _owner(storage: Storage, field: str, resource_id: UUID) -> UUID | None:
    if field == "agent":
        return await storage.agents.get_organization_id(resource_id)
    resource = await (storage.contacts if field == "contact" else storage.projects).get(resource_id)
    return resource.organization_id if resource else None
