"""What a body names by id: that it exists, and belongs to the organization of what is written."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from uuid import UUID

from aiohttp import web

from storage.storage import Storage
from web.access.auth import ORGANIZATION_HEADER, Caller, organization_for_create
from web.access.path_access import OwnedResource
from web.app_keys import STORAGE
from web.errors import Invalid, PermissionDenied
from web.fields import unknown_id


async def load_named(
    caller: Caller,
    get: Callable[[UUID], Awaitable[OwnedResource | None]],
    field: str,
    resource_id: UUID,
) -> OwnedResource:
    """Return the resource that a body names in `field`.

    Raise Invalid if there is none, PermissionDenied if it belongs to another organization.
    """
    resource = await get(resource_id)
    if resource is None:
        raise Invalid({field: [unknown_id(resource_id)]})
    caller.require(resource.organization_id)
    return resource


async def owner_of_new(request: web.Request, caller: Caller, body: Mapping[str, Any]) -> UUID:
    """The organization of what the body names, else the one that the caller's new resources go to.

    Invalid for ids that name nothing, PermissionDenied for another organization's and for a mixture.
    """
    owners = await _owners(request.app[STORAGE], body)
    if not owners or ORGANIZATION_HEADER in request.headers:
        owners.add(organization_for_create(request, caller))
    for owner in owners:
        caller.require(owner)
    if len(owners) > 1:
        raise PermissionDenied
    return owners.pop()


async def require_owner(request: web.Request, organization_id: UUID, changes: Mapping[str, Any]) -> None:
    """Invalid for ids that name nothing, PermissionDenied for those of other organizations than this."""
    if await _owners(request.app[STORAGE], changes) - {organization_id}:
        raise PermissionDenied


async def _owners(storage: Storage, body: Mapping[str, Any]) -> set[UUID]:
    """Whose the agent, the contact and the project are."""
    owners: set[UUID] = set()
    unknown: dict[str, list[str]] = {}
    for field in ("agent", "contact", "project"):
        named_id = body.get(f"{field}_id")
        if named_id is None:
            continue
        owner = await _owner(storage, field, named_id)
        if owner is None:
            unknown[field] = [unknown_id(named_id)]
        else:
            owners.add(owner)
    if unknown:
        raise Invalid(unknown)
    return owners


async def _owner(storage: Storage, field: str, named_id: UUID) -> UUID | None:
    if field == "agent":
        return await storage.agents.organization_of(named_id)
    named = await (storage.contacts if field == "contact" else storage.projects).get(named_id)
    return named.organization_id if named else None
