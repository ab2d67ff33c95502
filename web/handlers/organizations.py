"""The caller's organizations: new ones, and their names, spending caps and pauses."""

from functools import partial
from uuid import UUID

from aiohttp import web

from storage.ids import new_id
from storage.model import Organization
from supervisors.engine.broadcast import tell_agents_of
from web.access.auth import Caller
from web.access.login_attempts import count_signup
from web.access.model_checks import warn_of_refused_models
from web.access.path_access import load
from web.app_keys import CLOCK, REGISTRY, SETTINGS, STORAGE
from web.errors import PermissionDenied, require_found
from web.idempotency import read_body_once, receipt_of
from web.json import json_response
from web.page_reader import Listing
from web.paging import PageQuery, answer_list
from web.request.parsing import read_body, read_query
from web.routes import Routes
from web.schemas.organizations import (
    NewOrganizationBody,
    OrganizationChangesBody,
    WholeOrganizationResponse,
    serialize_whole_organization,
)

routes = Routes()

NEW = NewOrganizationBody()
CHANGES = OrganizationChangesBody()
QUERY = PageQuery()

FIELDS_READ_BY_SUPERVISORS = frozenset({"paused", "max_cost_usd_per_day", "unpriced"})


@routes.create(
    "/api/organizations/organizations/", answer=WholeOrganizationResponse, body=NEW, refusals={429}
)
async def create_organization(request: web.Request, caller: Caller) -> web.Response:
    """Create an organization that the calling user owns.

    It counts like a sign-up: against `limits.signups_per_hour` of the address, and refused while
    `accounts.signup` is closed. A user owns at most `limits.organizations_per_user`. An API key cannot create
    one.
    """
    app, user_id = request.app, caller.require_user()
    if not app[SETTINGS].signup_open:
        raise PermissionDenied("Only the operator creates organizations here (accounts.signup is closed).")
    body = await read_body_once(request, caller, NEW)
    count_signup(request)
    organization = Organization(new_id(), body["name"], app[CLOCK].now())
    answer = json_response(serialize_whole_organization(organization), status=201)
    await app[STORAGE].accounts.insert_organization(
        organization, user_id, app[SETTINGS].limits.organizations_per_user, receipt_of(request, answer)
    )
    return answer


@routes.get("/api/organizations/organizations/", answer=list[WholeOrganizationResponse], query=QUERY)
async def list_organizations(request: web.Request, caller: Caller) -> web.StreamResponse:
    """List the organizations that you belong to; with an API key, the only one that it acts for."""
    query = read_query(request, QUERY)
    organizations = request.app[STORAGE].organizations

    async def find(organization_id: UUID) -> Organization | None:
        return await organizations.get(organization_id) if organization_id in caller.roles else None

    fetch = partial(organizations.list_page, caller.organizations)
    return await answer_list(request, query, Listing(fetch, serialize_whole_organization, find))


@routes.get("/api/organizations/organizations/{id}/", answer=WholeOrganizationResponse)
async def get_organization(request: web.Request, caller: Caller) -> web.Response:
    """Read one of your organizations."""
    return json_response(serialize_whole_organization(await _load_own_organization(request, caller)))


@routes.patch("/api/organizations/organizations/{id}/", answer=WholeOrganizationResponse, body=CHANGES)
async def change_organization(request: web.Request, caller: Caller) -> web.Response:
    """Change the fields that the body contains. Members are refused with 403.

    A pause stops its runs and starts no others. Its end, like a higher cap, wakes agents that are due. If the
    cap refuses models of agents, whose prices are not known, `X-Unpriced-Models` names them.
    """
    organization = await _load_own_organization(request, caller)
    caller.require_admin(organization.id)
    changes = await read_body(request, CHANGES, partial=True)
    storage = request.app[STORAGE]
    changed = require_found(
        await storage.organizations.update(
            organization.id, changes, request.app[CLOCK].now(), actor=caller.identity
        )
    )
    registry = request.app[REGISTRY]
    if "paused" in changes:
        registry.pause_log.report(changed.id, is_paused=changed.paused, caller=caller.identity)
    if changes.keys() & FIELDS_READ_BY_SUPERVISORS:
        await tell_agents_of(changed.id, storage.agent_states, registry)
    answer = json_response(serialize_whole_organization(changed))
    if changes.keys() & {"max_cost_usd_per_day", "unpriced"}:
        await warn_of_refused_models(request, answer, changed, storage.agents.list_models_of_organization)
    return answer


async def _load_own_organization(request: web.Request, caller: Caller) -> Organization:
    organization = await load(request, request.app[STORAGE].organizations.get)
    caller.require(organization.id)
    return organization
