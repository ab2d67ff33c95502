"""Whether a caller may reach what a path or a query names.

A filter by another organization's resource is refused; one that names nothing finds nothing.
"""

from uuid import UUID

from aiohttp import web

from storage.model import Visibility
from storage.toolbox.adapters import Adapter
from web.access.auth import Caller
from web.app_keys import STORAGE
from web.errors import NotFound, PermissionDenied
from web.fields import parse_uuid


def path_id(request: web.Request, name: str = "id") -> UUID:
    """The id in the path; what is no UUID names nothing."""
    parsed = parse_uuid(request.match_info[name])
    if parsed is None:
        raise NotFound
    return parsed


async def require_agent(request: web.Request, caller: Caller, agent_id: UUID | None) -> None:
    """PermissionDenied for another organization's agent."""
    if agent_id is not None:
        _require(caller, await request.app[STORAGE].agents.organization_of(agent_id))


async def require_retained_agent(request: web.Request, caller: Caller, agent_id: UUID | None) -> None:
    """As `require_agent`, for what outlives an agent."""
    if agent_id is not None:
        agent = await request.app[STORAGE].agents.get_retained(agent_id)
        _require(caller, agent.organization_id if agent else None)


async def require_contact(request: web.Request, caller: Caller, contact_id: UUID | None) -> None:
    """PermissionDenied for another organization's contact."""
    contact = await request.app[STORAGE].contacts.get(contact_id) if contact_id else None
    _require(caller, contact.organization_id if contact else None)


async def require_project(request: web.Request, caller: Caller, project_id: UUID | None) -> None:
    """PermissionDenied for another organization's project."""
    project = await request.app[STORAGE].projects.get(project_id) if project_id else None
    _require(caller, project.organization_id if project else None)


async def require_template(request: web.Request, caller: Caller, template_id: UUID | None) -> None:
    """PermissionDenied for another organization's template."""
    if template_id is not None:
        template = await request.app[STORAGE].templates.get(template_id)
        _require(caller, template.organization_id if template else None)


async def require_adapter(request: web.Request, caller: Caller, adapter_id: UUID | None) -> None:
    """PermissionDenied for an adapter that the caller may not see."""
    adapter = await request.app[STORAGE].adapters.get(adapter_id) if adapter_id else None
    if adapter is not None:
        require_visible(caller, adapter)


def require_visible(caller: Caller, adapter: Adapter) -> None:
    """PermissionDenied for another organization's private adapter."""
    if not may_see(caller, adapter):
        raise PermissionDenied


def may_see(caller: Caller, adapter: Adapter) -> bool:
    return adapter.visibility is Visibility.PUBLIC or adapter.organization_id in caller.roles


async def require_organization(request: web.Request, caller: Caller, organization_id: UUID | None) -> None:
    """PermissionDenied for an organization that is not the caller's."""
    if organization_id is not None and organization_id not in caller.roles:
        organization = await request.app[STORAGE].organizations.get(organization_id)
        _require(caller, organization.id if organization else None)


def _require(caller: Caller, organization_id: UUID | None) -> None:
    if organization_id is not None:
        caller.require(organization_id)


async def agent_of_path(request: web.Request, caller: Caller) -> UUID:
    """The agent that the path names; NotFound, or PermissionDenied for another organization's."""
    agent_id = path_id(request)
    organization_id = await request.app[STORAGE].agents.organization_of(agent_id)
    if organization_id is None:
        raise NotFound
    caller.require(organization_id)
    return agent_id
