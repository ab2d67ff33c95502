"""The caller's organizations: their names, spending caps and pauses."""

from uuid import UUID

from aiohttp import web

from storage.model import Organization
from supervisors.engine.broadcast import tell_agents_of
from web.access.auth import Caller
from web.access.path_access import load
from web.app_keys import REGISTRY, STORAGE
from web.errors import require_found
from web.json import json_response
from web.page_reader import Listing
from web.paging import PageQuery, answer_list
from web.request.parsing import read_body, read_query
from web.routes import CallerRoute
from web.schemas.organizations import (
    OrganizationChangesBody,
    WholeOrganizationResponse,
    serialize_whole_organization,
)

CHANGES = OrganizationChangesBody()
QUERY = PageQuery()

FIELDS_READ_BY_SUPERVISORS = frozenset({"paused", "max_cost_usd_per_day"})


async def list_organizations(request: web.Request, caller: Caller) -> web.StreamResponse:
    """List the organizations that you belong to; with an API key, the only one that it acts for."""
    query = read_query(request, QUERY)
    organizations = request.app[STORAGE].organizations

    async def find(organization_id: UUID) -> Organization | None:
        return await organizations.get(organization_id) if organization_id in caller.roles else None

    listing = Listing(
        lambda page: organizations.list_page(caller.organizations, page),
        find,
        serialize_whole_organization,
    )
    return await answer_list(request, query, listing)


async def get_organization(request: web.Request, caller: Caller) -> web.Response:
    """Read one of your organizations."""
    return json_response(serialize_whole_organization(await _load_own_organization(request, caller)))


async def change_organization(request: web.Request, caller: Caller) -> web.Response:
    """Change the fields that the body contains. Members are refused with 403.

    A pause stops its runs and starts no others. Its end, like a higher cap, wakes agents that are due.
    """
    organization = await _load_own_organization(request, caller)
    caller.require_admin(organization.id)
    changes = await read_body(request, CHANGES, partial=True)
    storage = request.app[STORAGE]
    changed = require_found(await storage.organizations.update(organization.id, changes))
    if changes.keys() & FIELDS_READ_BY_SUPERVISORS:
        await tell_agents_of(changed.id, storage.agent_states, request.app[REGISTRY])
    return json_response(serialize_whole_organization(changed))


async def _load_own_organization(request: web.Request, caller: Caller) -> Organization:
    organization = await load(request, request.app[STORAGE].organizations.get)
    caller.require(organization.id)
    return organization


ROUTES = (
    CallerRoute(
        "GET",
        "/api/organizations/organizations/",
        list_organizations,
        "List the caller's organizations",
        answer=list[WholeOrganizationResponse],
        query=QUERY,
    ),
    CallerRoute(
        "GET",
        "/api/organizations/organizations/{id}/",
        get_organization,
        "Read an organization",
        answer=WholeOrganizationResponse,
    ),
    CallerRoute(
        "PATCH",
        "/api/organizations/organizations/{id}/",
        change_organization,
        "Rename an organization, cap its spending, or pause it",
        answer=WholeOrganizationResponse,
        body=CHANGES,
    ),
)
