"""Actions on many agents at once, with a dry run and an undo."""

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from uuid import UUID

from aiohttp import web

from storage import ids
from storage.agents.actions import AgentAction, Selection
from storage.agents.agent_filters import AgentFilters
from storage.notifications.bulk_clears import NotificationState
from web.access.agent_queries import read_agent_filters
from web.access.auth import Caller
from web.agent_actions import ActionResult, perform
from web.app_keys import CLOCK, STORAGE
from web.errors import Invalid
from web.fields import unknown_id
from web.json import json_response
from web.request.parsing import read_body
from web.request_room import ACTION_UNITS, PLACE
from web.routes import Routes
from web.schemas.agent_actions import ActOnAgentsBody, AgentActionsResponse
from web.schemas.agents import AgentFilterQuery

routes = Routes()

BODY = ActOnAgentsBody()
NO_FILTERS = AgentFilterQuery().checked({})
MAX_COUNTED = 100_000
NOT_FOUND = "There is no such agent."


@routes.post("/api/cloud/agents/actions/", answer=AgentActionsResponse, body=BODY)
async def act_on_agents(request: web.Request, caller: Caller) -> web.Response:
    """Pause, resume, stop, archive, restore, clear or tag many agents: those given, or all that match.

    One call changes up to 1,000 agents, or clears up to 1,000 notifications, in about five seconds. Repeat it
    with its `next` as `after` for the rest; agents that are as the action leaves them stay untouched. Try it
    with `dry_run` first. `undo` is the body of the call that undoes this one. An agent of another
    organization is refused with 403, before anything is changed.
    """
    body = await read_body(request, BODY)
    with request[PLACE].more(ACTION_UNITS):
        if body["action"] is AgentAction.UNCLEAR:
            return json_response(await _unclear(request, caller, body))
        return json_response(await _act(request, caller, body))


async def _act(request: web.Request, caller: Caller, body: Mapping[str, Any]) -> AgentActionsResponse:
    missing = await _find_missing(request, caller, body.get("agents", ()))
    selection = await _select(request, caller, body)
    if body["dry_run"]:
        return await _count(request, selection, missing)
    result = await perform(request, selection, caller.identity, body["reason"])
    if body["after"] is None:
        result.failures |= dict.fromkeys(missing, NOT_FOUND)
        result.matched += len(missing)
    return _serialize(result)


async def _find_missing(request: web.Request, caller: Caller, agent_ids: Sequence[UUID]) -> list[UUID]:
    """Return the ids that name no agent. Raise PermissionDenied if one names an agent of others."""
    if not agent_ids:
        return []
    owners = await request.app[STORAGE].agent_selections.list_owners(agent_ids)
    for organization_id in set(owners.values()):
        caller.require(organization_id)
    return [agent_id for agent_id in dict.fromkeys(agent_ids) if agent_id not in owners]


async def _select(request: web.Request, caller: Caller, body: Mapping[str, Any]) -> Selection:
    if "match" in body:
        filters = await read_agent_filters(request, caller, {**NO_FILTERS, **body["match"]})
        given = None
    else:
        filters, given = AgentFilters(tuple(caller.organizations)), tuple(dict.fromkeys(body["agents"]))
    return Selection(
        filters,
        body["action"],
        request.app[CLOCK].now(),
        given,
        tuple(dict.fromkeys(body.get("tags", ()))),
        await _begin(request, caller, body["after"]),
    )


async def _begin(request: web.Request, caller: Caller, after: UUID | None) -> tuple[Any, UUID] | None:
    """Return the place of the first agent of this call."""
    if after is None:
        return None
    selections = request.app[STORAGE].agent_selections
    created_at = await selections.get_creation(after, tuple(caller.organizations))
    # The row of an agent that was deleted long ago is gone, but its id says when it was created.
    created_at = created_at or ids.latest_creation(after)
    if created_at is None:
        raise Invalid({"after": [unknown_id(after)]})
    return created_at, after


async def _count(request: web.Request, selection: Selection, missing: Sequence[UUID]) -> AgentActionsResponse:
    selections = request.app[STORAGE].agent_selections
    if selection.ids is None:
        counts = await selections.count(selection, MAX_COUNTED)
        matched, changed = counts.matched, counts.changed
    else:
        candidates = await selections.list_candidates(selection, MAX_COUNTED)
        matched, changed = len(candidates) + len(missing), sum(each.changes for each in candidates)
    return _serialize(ActionResult(matched, failures=dict.fromkeys(missing, NOT_FOUND)), changed)


async def _unclear(request: web.Request, caller: Caller, body: Mapping[str, Any]) -> AgentActionsResponse:
    """Put notifications back into their queues. Raise LimitReached if too many would wait."""
    storage = request.app[STORAGE]
    states = await storage.notifications.list_states(body["notifications"])
    for organization_id in {each.organization_id for each in states}:
        caller.require(organization_id)
    matched = {each.agent_id for each in states}
    cleared = [each for each in states if each.cleared]
    if body["dry_run"]:
        return _serialize(ActionResult(len(matched)), len({each.agent_id for each in cleared}))
    async with _room_for(request, cleared):
        put_back = await storage.notifications.unclear(
            [each.id for each in cleared],
            tuple(caller.organizations),
            request.app[CLOCK].now(),
            actor=caller.identity,
        )
    changed = list(dict.fromkeys(each.agent_id for each in put_back))
    return _serialize(ActionResult(len(matched), changed))


@asynccontextmanager
async def _room_for(request: web.Request, states: Sequence[NotificationState]) -> AsyncIterator[None]:
    """Reserve room for the notifications among those that wait, for the duration of the block."""
    limit = request.app[STORAGE].limits.waiting_notifications
    async with AsyncExitStack() as stack:
        for organization_id, count in Counter(each.organization_id for each in states).items():
            await stack.enter_async_context(limit.reserved(organization_id, count))
        yield


def _serialize(result: ActionResult, would_change: int | None = None) -> AgentActionsResponse:
    changed = len(result.changed) if would_change is None else would_change
    return {
        "matched": result.matched,
        "changed": changed,
        "unchanged": max(0, result.matched - changed - len(result.failures)),
        "agents": result.changed,
        "next": result.next,
        "undo": result.undo,
        "failures": [{"agent": agent_id, "error": error} for agent_id, error in result.failures.items()],
    }
