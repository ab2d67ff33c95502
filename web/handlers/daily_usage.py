"""Daily usage: the tokens and the cost of the model calls of many agents, by day and model."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from aiohttp import web

from storage.history.daily_usage import UsageScope
from storage.storage import Storage
from web.access.auth import Caller
from web.access.path_access import require_organization, turn_to_read
from web.app_keys import CLOCK, STORAGE
from web.errors import Invalid
from web.handlers.usage import DEFAULT_PERIOD, MIN_DATETIME, START_AFTER_END
from web.json import json_response
from web.request.local_times import localize
from web.request.parsing import read_query
from web.routes import Routes
from web.schemas.daily_usage import Caps, DailyUsageQuery, DailyUsageResponse, serialize_daily_usage
from web.schemas.usage import DATETIME_FIELDS

routes = Routes()

QUERY = DailyUsageQuery()

MAX_DAYS = 400
TOO_LONG = f"The period may be at most {MAX_DAYS} days long: choose a later start or an earlier end."


@routes.get("/api/cloud/usage/", answer=DailyUsageResponse, query=QUERY)
async def get_daily_usage(request: web.Request, caller: Caller) -> web.Response:
    """Sum up the model calls of all agents of your organizations, or of some, by UTC day and model.

    Without `start_date` the period is 30 days long. Calls stay in the sums after their agents were deleted.
    """
    query = read_query(request, QUERY)
    localize(query, DATETIME_FIELDS, UTC)
    storage = request.app[STORAGE]
    start, end = _period(query, request.app[CLOCK].now())
    owners = await _organizations(request, caller, query)
    scope = UsageScope(owners, start, end, query["agent"], query["template"])
    async with turn_to_read(request):
        usage = await storage.usage_by_day.sum_by_day(scope)
        limit = query["top_agents"]
        agents = await storage.usage_by_day.list_top_agents(scope, limit) if limit else []
    caps = await _caps(storage, scope, request.app[CLOCK].now())
    return json_response(serialize_daily_usage(scope, usage, agents, caps))


def _period(query: dict[str, Any], now: datetime) -> tuple[datetime, datetime]:
    """Return the start and the end. Raise Invalid for a period that is too long or ends before it starts."""
    end: datetime = query["end_date"] or now
    start: datetime = query["start_date"] or end - min(DEFAULT_PERIOD, end - MIN_DATETIME)
    if start > end:
        raise Invalid({"start_date": [START_AFTER_END]})
    if end - start > timedelta(days=MAX_DAYS):
        raise Invalid({"start_date": [TOO_LONG]})
    return start, end


async def _organizations(request: web.Request, caller: Caller, query: dict[str, Any]) -> frozenset[UUID]:
    """Return the organizations to which everything that the query names belongs; all without such names.

    Raise PermissionDenied for other organizations' resources. An unknown id leaves no organization.
    """
    storage, owners = request.app[STORAGE], frozenset(caller.organizations)
    await require_organization(request, caller, query["organization"])
    if query["organization"] is not None:
        owners &= {query["organization"]}
    for resource_id, get in (
        (query["agent"], storage.agents.get_retained),
        (query["template"], storage.templates.get),
    ):
        if resource_id is None:
            continue
        resource = await get(resource_id)
        if resource is not None:
            caller.require(resource.organization_id)
        owners &= {resource.organization_id} if resource else frozenset()
    return owners


async def _caps(storage: Storage, scope: UsageScope, now: datetime) -> Caps:
    of_agent = of_organization = None
    if scope.agent_id is not None:
        budgets = await storage.spending.list_budgets(scope.agent_id, now)
        of_agent = next((budget.cap_usd for budget in budgets if not budget.of_organization), None)
    if len(scope.organization_ids) == 1:
        [organization_id] = scope.organization_ids
        organization = await storage.organizations.get(organization_id)
        of_organization = organization.max_cost_usd_per_day if organization else None
    return {"agent_max_cost_usd_per_day": of_agent, "organization_max_cost_usd_per_day": of_organization}
