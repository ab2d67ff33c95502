"""Organizations: their names, spending caps, pauses, and limits with what is in use of them."""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from functools import partial
from typing import TypedDict
from uuid import UUID

import structlog
from aiohttp import web

from storage.ids import new_id
from storage.model import Organization, Unpriced
from supervisors.engine.registry import tell_agents_of
from web.access.auth import Caller, requested_organization
from web.access.login_guard import count_signup
from web.access.model_checks import warn_of_refused_models
from web.access.path_access import load
from web.app_keys import CLOCK, RATE_LIMITS, REGISTRY, SETTINGS, STORAGE
from web.credentials.rate_limits import OF_CALLERS
from web.errors import PermissionDenied, require_found
from web.fields import Boolean, Choice, Line, Money, Region
from web.idempotency import read_body_once, receipt_of
from web.json import Serializer
from web.paging import Listing, PageQuery, answer_list
from web.request.parsing import Body, read_body, read_query
from web.routes import Routes


class NewOrganizationBody(Body):
    """A further organization of the user who sends it."""

    name = Line(required=True, blank=False, max_length=255)


class OrganizationChangesBody(Body):
    """The settings of an organization that its admins and owners can change."""

    name = Line(blank=False, max_length=255)
    paused = Boolean()
    max_cost_usd_per_day = Money(allow_none=True)
    unpriced = Choice(Unpriced)
    phone_region = Region()


class WholeOrganizationResponse(TypedDict):
    """An organization, which owns agents, templates and everything else."""

    id: UUID
    """Chosen by the service; `X-Organization` takes it."""
    name: str
    """The name of the organization; several may have the same."""
    paused: bool
    """Whether its agents are held: true stops their runs and starts no others until it is false again."""
    max_cost_usd_per_day: Decimal | None
    """What all its agents together may spend in a UTC day, in US dollars with at most six decimals; null: no
    cap. 0 allows no run."""
    unpriced: Unpriced
    """Whether the cap allows calls of models whose price is not known."""
    phone_region: str
    """The region of phone numbers without a country code, as two capital letters such as `AT`; "": such
    numbers are refused."""
    created_at: datetime
    """When the organization was created."""


serialize_whole_organization = Serializer(WholeOrganizationResponse, Organization)


class LimitScope(StrEnum):
    """What a limit applies to."""

    ORGANIZATION = "organization"
    """The organization as a whole."""
    CREDENTIAL = "credential"
    """Each API key, user or run token."""
    USER = "user"
    """Each user."""
    AGENT = "agent"
    """Each agent."""
    TRACE = "trace"
    """Each trace."""


class LimitResponse(TypedDict):
    """A limit that the operator has set."""

    name: str
    """Its name in the section `[limits]` of the configuration; a refusal names it, too."""
    per: LimitScope
    """What the limit applies to."""
    limit: int | None
    """The maximum; null: there is none."""
    used: int | None
    """How much of it is in use, a few seconds old at most; of requests per minute, how many of its own your
    credential has used up. null if the limit applies to each user, agent, trace or credential."""


class LimitsResponse(TypedDict):
    """The limits of an organization. Counts are a few seconds old at most, unless counting takes long."""

    organization: UUID
    """The organization that the limits are about."""
    limits: Sequence[LimitResponse]
    """All limits, those that are switched off included."""


def serialize_limit(name: str, per: LimitScope, limit: int, used: int | None) -> LimitResponse:
    return {"name": name, "per": per, "limit": limit or None, "used": used}


log = structlog.get_logger()

routes = Routes()

FIELDS_READ_BY_SUPERVISORS = frozenset({"paused", "max_cost_usd_per_day", "unpriced"})


@routes.create("/api/organizations/organizations/", body=NewOrganizationBody, refusals={429})
async def create_organization(request: web.Request, caller: Caller) -> WholeOrganizationResponse:
    """Create an organization that the calling user owns.

    It counts like a sign-up: against `limits.signups_per_hour` of the address, and refused while
    `accounts.signup` is closed. A user owns at most `limits.organizations_per_user`. An API key cannot create
    one.
    """
    app, user_id = request.app, caller.require_user()
    if not app[SETTINGS].signup_open:
        raise PermissionDenied("Only the operator creates organizations here (accounts.signup is closed).")
    body = await read_body_once(request, caller)
    count_signup(request)
    organization = Organization(new_id(), body["name"], app[CLOCK].now())
    answer = serialize_whole_organization(organization)
    await app[STORAGE].accounts.insert_organization(
        organization, user_id, app[SETTINGS].limits.organizations_per_user, receipt_of(request, answer)
    )
    return answer


@routes.get("/api/organizations/organizations/", answer=list[WholeOrganizationResponse], query=PageQuery)
async def list_organizations(request: web.Request, caller: Caller) -> web.StreamResponse:
    """List the organizations that you belong to; with an API key, the only one that it acts for."""
    query = read_query(request)
    organizations = request.app[STORAGE].organizations
    fetch = partial(organizations.list_page, caller.organizations)
    listing = Listing(
        fetch, serialize_whole_organization, organizations.get, lambda each: each.id in caller.roles
    )
    return await answer_list(request, query, listing)


@routes.get("/api/organizations/organizations/{id}/")
async def get_organization(request: web.Request, caller: Caller) -> WholeOrganizationResponse:
    """Read one of your organizations."""
    return serialize_whole_organization(await _load_own_organization(request, caller))


@routes.patch("/api/organizations/organizations/{id}/", body=OrganizationChangesBody)
async def change_organization(request: web.Request, caller: Caller) -> WholeOrganizationResponse:
    """Change the fields that the body contains. Members are refused with 403.

    A pause stops its runs and starts no others. Its end, like a higher cap, wakes agents that are due. If the
    cap refuses models of agents, whose prices are not known, `X-Unpriced-Models` names them.
    """
    organization = await _load_own_organization(request, caller)
    caller.require_admin(organization.id)
    changes = await read_body(request)
    storage = request.app[STORAGE]
    changed = require_found(
        await storage.organizations.update(
            organization.id, changes, request.app[CLOCK].now(), actor=caller.identity
        )
    )
    registry = request.app[REGISTRY]
    if changed.paused != organization.paused:
        if changed.paused:
            log.info("organization paused", organization=str(changed.id), caller=caller.identity)
        else:
            log.info("organization resumed", organization=str(changed.id), caller=caller.identity)
    if changes.keys() & FIELDS_READ_BY_SUPERVISORS:
        await tell_agents_of(changed.id, storage.agent_states, registry)
    if changes.keys() & {"max_cost_usd_per_day", "unpriced"}:
        await warn_of_refused_models(request, changed, storage.agents.list_models_of_organization)
    return serialize_whole_organization(changed)


async def _load_own_organization(request: web.Request, caller: Caller) -> Organization:
    organization = await load(request, request.app[STORAGE].organizations.get)
    caller.require(organization.id)
    return organization


@routes.get("/api/organizations/limits/", by_header=True)
async def get_limits(request: web.Request, caller: Caller) -> LimitsResponse:
    """Return the limits of one of your organizations, with what is in use of each."""
    organization_id = requested_organization(request, caller)
    limits = [limit async for limit in _limits(request.app, organization_id)]
    return {
        "organization": organization_id,
        "limits": [_of_requests(request.app, caller), *limits],
    }


async def _limits(app: web.Application, organization_id: UUID) -> AsyncIterator[LimitResponse]:
    for limit in app[STORAGE].limits.all():
        used = await limit.in_use(organization_id)
        yield serialize_limit(limit.name, LimitScope.ORGANIZATION, limit.limit, used)
    registry = app[REGISTRY]
    most, runs = registry.max_runs_per_organization, registry.count_runs(organization_id)
    yield serialize_limit("concurrent_runs", LimitScope.ORGANIZATION, most, runs)
    limits = app[SETTINGS].limits
    owned = limits.organizations_per_user
    yield serialize_limit("organizations_per_user", LimitScope.USER, owned, None)
    yield serialize_limit("tags_per_agent", LimitScope.AGENT, limits.tags_per_agent, None)
    yield serialize_limit("spans_per_trace", LimitScope.TRACE, app[STORAGE].traces.max_spans, None)


def _of_requests(app: web.Application, caller: Caller) -> LimitResponse:
    """Return the limit on requests, which counts this request as well."""
    limit = app[RATE_LIMITS].of_callers
    if limit is None:
        return serialize_limit(OF_CALLERS, LimitScope.CREDENTIAL, 0, None)
    per_minute = limit.buckets.size
    left = limit.buckets.peek(caller.credential, app[CLOCK].monotonic()).remaining
    return serialize_limit(limit.name, LimitScope.CREDENTIAL, per_minute, per_minute - left)
