"""The ids that bodies and queries refer to: they must exist, in one organization that the caller may use."""

from collections.abc import Awaitable, Callable, Mapping, Set
from typing import Any, NamedTuple
from uuid import UUID

from aiohttp import web

from storage.agents.filters import AgentFilters
from storage.errors import ConstraintError, NotUnique, ParentCycle, ReferenceMissing
from storage.model import Agent, Template
from storage.storage import Storage
from web.access.auth import Caller, requested_organization
from web.access.path_access import OfAgent, OwnedResource, require_agent, require_organization, require_owned
from web.app_keys import STORAGE
from web.errors import Invalid, PermissionDenied
from web.fields import unknown_id

NO_CIRCLES = "An agent may not be its own ancestor."


class References(NamedTuple):
    """The organization of an agent, its template and its parent; None if the body does not name one."""

    organization_id: UUID
    template: Template | None
    parent: Agent | None


async def resolve(
    storage: Storage, choose_organization: Callable[[Set[UUID]], UUID], body: Mapping[str, Any]
) -> References:
    """Return the template and the parent that a body names.

    `choose_organization` returns the organization of the agent, given those of the template and the parent.
    Raise Invalid for ids that do not exist, PermissionDenied for those of another organization.
    """
    template_id, parent_id = body.get("template_id"), body.get("parent_id")
    template = await storage.templates.get(template_id) if template_id else None
    parent = await storage.agents.get(parent_id) if parent_id else None
    owners = {resource.organization_id for resource in (template, parent) if resource is not None}
    adapters = body.get("adapters", ())
    viewer = next(iter(owners)) if owners else choose_organization(owners)
    visible = await storage.agents.get_adapter_visibility(viewer, adapters) if adapters else {}

    unknown: dict[str, Any] = {}
    if items := {index: [unknown_id(each)] for index, each in enumerate(adapters) if each not in visible}:
        unknown["adapters"] = items
    if template_id and template is None:
        unknown["template"] = [unknown_id(template_id)]
    if parent_id and parent is None:
        unknown["parent"] = [unknown_id(parent_id)]
    if unknown:
        raise Invalid(unknown)

    organization_id = choose_organization(owners)
    if owners - {organization_id} or not all(visible.values()):
        raise PermissionDenied
    return References(organization_id, template, parent)


def refusal(error: ConstraintError, body: Mapping[str, Any]) -> Invalid:
    """Return the error for a constraint that failed after all checks had passed.

    An alias was taken, or a resource deleted, between the checks and the statement.
    """
    match error:
        case ParentCycle():
            return Invalid({"parent": [NO_CIRCLES]})
        case NotUnique():
            return Invalid({field: [f"agent with this {field} already exists."] for field in error.fields})
        case ReferenceMissing(field="template" | "parent" as field):
            return Invalid({field: [unknown_id(body[f"{field}_id"])]})
        case _:
            return Invalid({"adapters": ["Invalid pk - object does not exist."]})


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


async def load_all_named(body: Mapping[str, Any], **gets: Callable[[UUID], Awaitable[Any]]) -> dict[str, Any]:
    """Return what a body names in these fields. Raise Invalid for ids that do not exist."""
    ids: dict[str, UUID] = {field: body[f"{field}_id"] for field in gets if body.get(f"{field}_id")}
    found = {field: await gets[field](resource_id) for field, resource_id in ids.items()}
    unknown = {field: [unknown_id(ids[field])] for field, resource in found.items() if resource is None}
    if unknown:
        raise Invalid(unknown)
    return found


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

    async def get_agent(agent_id: UUID) -> _Owner | None:
        organization_id = await storage.agents.get_organization_id(agent_id)
        return None if organization_id is None else _Owner(organization_id, agent_id)

    found = await load_all_named(
        body, agent=get_agent, contact=storage.contacts.get, project=storage.projects.get
    )
    return {_Owner(each.organization_id, each.agent_id) for each in found.values()}


async def read_agent_filters(request: web.Request, caller: Caller, query: Mapping[str, Any]) -> AgentFilters:
    """Return the filters of an `AgentFilterQuery`, over the caller's organizations.

    Raise PermissionDenied for an organization, a template or a parent of others.
    """
    await require_organization(request, caller, query["organization"])
    await require_owned(caller, request.app[STORAGE].templates.get, query["template"])
    await require_agent(request, caller, query["parent"])
    return AgentFilters(
        organization_ids=_filter_organizations(caller, query["organization"]),
        include_archived=query["include_archived"],
        purpose=query["purpose"],
        tags=tuple(query["tag"]),
        template_id=query["template"],
        status=query["status"],
        parent_id=query["parent"],
        name=query["name"],
        search=query["search"],
        phase=query.get("phase"),
        ids=tuple(query.get("agent", ())),
    )


def _filter_organizations(caller: Caller, organization_id: UUID | None) -> tuple[UUID, ...]:
    return tuple(own_id for own_id in caller.organizations if organization_id in {None, own_id})
