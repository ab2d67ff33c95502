"""The limits of an organization, and what it uses of them."""

from collections.abc import AsyncIterator
from uuid import UUID

from aiohttp import web

from web.access.auth import Caller, requested_organization
from web.app_keys import CLOCK, RATE_LIMITS, REGISTRY, SETTINGS, STORAGE
from web.credentials.rate_limits import OF_CALLERS
from web.json import json_response
from web.routes import Routes
from web.schemas.limits import LimitResponse, LimitScope, LimitsResponse, serialize_limit

routes = Routes()


@routes.get("/api/organizations/limits/", answer=LimitsResponse, by_header=True)
async def get_limits(request: web.Request, caller: Caller) -> web.Response:
    """Return the limits of one of your organizations, with what is in use of each."""
    organization_id = requested_organization(request, caller)
    limits = [limit async for limit in _limits(request.app, organization_id)]
    answer: LimitsResponse = {
        "organization": organization_id,
        "limits": [_of_requests(request.app, caller), *limits],
    }
    return json_response(answer)


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
