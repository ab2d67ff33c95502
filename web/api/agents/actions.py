"""Actions on many agents at once, with a dry run and an undo."""

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NotRequired, TypedDict
from uuid import UUID

from aiohttp import web
from marshmallow import RAISE, ValidationError, missing
from marshmallow.fields import Field

from storage import ids
from storage.agents.actions import MAX_TAGS_BYTES, AgentAction, Selection
from storage.agents.filters import AgentFilters
from storage.model import AgentStatus
from storage.notifications.changes import NotificationState
from supervisors.bulk_requests import ask_each
from supervisors.engine.messages import OwnedFieldsRequest, Request, RestoreRequest, StopReply, StopRequest
from supervisors.policy.phases import ShownPhase
from web.access.auth import Caller
from web.access.references import read_agent_filters
from web.api.agents.agents import AgentFilterQuery
from web.api.agents.runs import MAX_REASON_LENGTH
from web.app_keys import CLOCK, REGISTRY, SETTINGS, STORAGE
from web.errors import Invalid
from web.fields import MAX_ITEMS, REQUIRED, Boolean, Choice, Line, ListOf, ObjectOf, Text, Uuid, unknown_id
from web.request.parsing import Body, read_body
from web.request_room import ACTION_UNITS, PLACE
from web.routes import Routes

MAX_AGENTS = MAX_ITEMS  # that one call changes
MAX_NOTIFICATIONS = MAX_ITEMS  # that one call clears
TAG_ACTIONS = frozenset({AgentAction.TAG, AgentAction.UNTAG})

NEITHER = "Give the ids of agents, or match: the filters of a list of agents."
BOTH = "Give either agents or match, not both."
NO_TAGS = "Only tag and untag take tags."
NO_REASON = "Only a stop takes a reason."
NO_NOTIFICATIONS = "Only unclear takes notifications."
NO_AGENTS = "unclear takes notifications, which say whose they are."


class AgentMatchBody(AgentFilterQuery):
    """The filters of a list of agents. Without any, all agents match that are not archived."""

    class Meta:
        unknown = RAISE  # a misspelled filter must not make an action concern all agents

    phase = Choice(ShownPhase, load_default=None)
    """Only agents in this phase; `archived` implies `include_archived`."""

    def on_bind_field(self, field_name: str, field_obj: Field[Any]) -> None:
        """Let a filter have a value or be left out, as in a query, but not be null."""
        field_obj.allow_none = False
        if field_obj.load_default is None:
            field_obj.load_default = missing


class ActOnAgentsBody(Body):
    """An action, and the agents that it concerns: those with the given ids, or all that match."""

    action = Choice(AgentAction, required=True)
    """What to do."""
    agents = ListOf(Uuid())
    """The ids of the agents. Ids of agents that do not exist are among the `failures`."""
    match = ObjectOf(AgentMatchBody)
    """The filters that a list of agents has, as an object: the action concerns all agents that it shows."""
    tags = ListOf(Line(blank=False, max_length=255))
    """The tags to add or to take, for `tag` and `untag`."""
    notifications = ListOf(Uuid())
    """The notifications to put back, for `unclear`, which takes no agents. Those that are not cleared, or are
    gone, stay as they are."""
    reason = Text(load_default="", max_length=MAX_REASON_LENGTH)
    """Why the agents are stopped, for people, as in the stop of one agent."""
    dry_run = Boolean(load_default=False)
    """Whether to change nothing, and only count the agents that match and those that would change, up to
    100,000."""
    after = Uuid(load_default=None)
    """The `next` of the answer before, to go on with the same body; null: begin."""

    def check_together(self, checked: Mapping[str, Any]) -> None:
        messages = {**_check_subject(checked), **_check_details(checked)}
        if messages:
            raise ValidationError(messages)


def _check_subject(checked: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return messages about the agents and the notifications."""
    named = checked.keys() & {"agents", "match"}
    if checked["action"] is AgentAction.UNCLEAR:
        missing = {} if "notifications" in checked else {"notifications": [REQUIRED]}
        return {**missing, **{name: [NO_AGENTS] for name in named}}
    messages = {"notifications": [NO_NOTIFICATIONS]} if "notifications" in checked else {}
    if len(named) != 1:
        messages["agents"] = [BOTH if named else NEITHER]
    return messages


def _check_details(checked: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return messages about the tags and the reason."""
    messages = {}
    if checked["action"] in TAG_ACTIONS and not checked.get("tags"):
        messages["tags"] = [REQUIRED]
    elif checked["action"] not in TAG_ACTIONS and "tags" in checked:
        messages["tags"] = [NO_TAGS]
    if checked["reason"] and checked["action"] is not AgentAction.STOP:
        messages["reason"] = [NO_REASON]
    return messages


class AgentActionUndo(TypedDict):
    """The body of the call that undoes an action."""

    action: AgentAction
    """The inverse action."""
    agents: NotRequired[Sequence[UUID]]
    """The agents that were changed."""
    notifications: NotRequired[Sequence[UUID]]
    """The notifications that were cleared."""
    tags: NotRequired[Sequence[str]]
    """The tags that were added or taken."""


class AgentActionFailure(TypedDict):
    """An agent that an action could not change."""

    agent: UUID
    """The id of the agent."""
    error: str
    """Why it was not changed."""


class AgentActionsResponse(TypedDict):
    """What an action did, or would do, to the agents that this call has come to."""

    matched: int
    """How many of the agents this call has come to; of a dry run, all that match, up to 100,000."""
    changed: int
    """How many were changed; of a dry run, how many would be."""
    unchanged: int
    """How many were as the action leaves them already."""
    agents: Sequence[UUID]
    """The agents that were changed."""
    next: UUID | None
    """What to send as `after`, with the same body, to go on with the other agents; null: there are none."""
    undo: AgentActionUndo | None
    """The body of the call that undoes what this call did; null if nothing was changed or nothing undoes it
    exactly."""
    failures: Sequence[AgentActionFailure]
    """The agents that could not be changed."""


MAX_SECONDS = 5.0  # in which one call asks supervisors
MAX_LOOKED_AT = 5000  # agents that one call looks at to find those that change
TOO_MANY_TAGS = (
    "It would have more than {} tags (limits.tags_per_agent), or more than {} bytes of them as JSON."
)

# The replies of supervisors that have changed nothing, and None for those that have not replied.
UNCHANGED = (None, False, StopReply.NOT_RUNNING)

INVERSES = {
    AgentAction.PAUSE: AgentAction.RESUME,
    AgentAction.RESUME: AgentAction.PAUSE,
    AgentAction.ARCHIVE: AgentAction.RESTORE,
    AgentAction.RESTORE: AgentAction.ARCHIVE,
    AgentAction.CLEAR: AgentAction.UNCLEAR,
    AgentAction.TAG: AgentAction.UNTAG,
    AgentAction.UNTAG: AgentAction.TAG,
}


@dataclass(slots=True)
class ActionResult:
    """What an action did to a part of the agents. `next`: the first agent that is left, None if none is."""

    matched: int = 0
    changed: Sequence[UUID] = ()
    failures: dict[UUID, str] = field(default_factory=dict)
    next: UUID | None = None
    undo: AgentActionUndo | None = None


async def perform(request: web.Request, selection: Selection, actor: str, reason: str) -> ActionResult:
    """Perform the action on the first agents of the selection that it changes."""
    candidates = await request.app[STORAGE].agent_selections.list_candidates(selection, MAX_LOOKED_AT + 1)
    ids = [candidate.id for candidate in candidates]
    changing = [candidate.id for candidate in candidates[:MAX_LOOKED_AT] if candidate.changes]
    agent_ids, left = changing[:MAX_AGENTS], [*changing[MAX_AGENTS:], *ids[MAX_LOOKED_AT:]]
    match selection.action:
        case AgentAction.CLEAR:
            result = await _clear(request, agent_ids, actor)
        case AgentAction.TAG | AgentAction.UNTAG:
            result = await _change_tags(request, agent_ids, selection, actor)
        case action:
            result = await _ask(request, agent_ids, action, actor, reason)
    result.next = result.next or next(iter(left), None)
    come_to = len(ids) if result.next is None else ids.index(result.next)
    result.matched = come_to + (result.next in result.changed)
    return result


async def _ask(
    request: web.Request, agent_ids: Sequence[UUID], action: AgentAction, actor: str, reason: str
) -> ActionResult:
    """Ask the supervisors of the agents, which own their states."""
    app = request.app
    message = _request_of(action, actor, reason)

    async def ask(agent_id: UUID) -> Any:
        return await app[REGISTRY].ask(agent_id, message)

    answers = await ask_each(ask, agent_ids, app[CLOCK], MAX_SECONDS)
    changed = [agent_id for agent_id in agent_ids if answers.replies.get(agent_id) not in UNCHANGED]
    can_undo = changed and action in INVERSES
    undo: AgentActionUndo | None = {"action": INVERSES[action], "agents": changed} if can_undo else None
    return ActionResult(0, changed, answers.failures, next(iter(answers.rest), None), undo)


def _request_of(action: AgentAction, actor: str, reason: str) -> Request[Any]:
    match action:
        case AgentAction.PAUSE | AgentAction.RESUME:
            return OwnedFieldsRequest(paused=action is AgentAction.PAUSE, caller=actor)
        case AgentAction.ARCHIVE:
            return OwnedFieldsRequest(status=AgentStatus.ARCHIVED, caller=actor)
        case AgentAction.RESTORE:
            return RestoreRequest(caller=actor)
        case AgentAction.STOP:
            return StopRequest(reason=reason, caller=actor, waits=False)
    raise ValueError(f"supervisors are not asked to {action}")


async def _change_tags(
    request: web.Request, agent_ids: Sequence[UUID], selection: Selection, actor: str
) -> ActionResult:
    agents, max_tags = request.app[STORAGE].agents, request.app[SETTINGS].limits.tags_per_agent
    tags, now = selection.tags, selection.now
    if selection.action is AgentAction.TAG:
        changes = await agents.tag_many(agent_ids, tags, max_tags, now, actor=actor)
    else:
        changes = await agents.untag_many(agent_ids, tags, now, actor=actor)
    refusal = TOO_MANY_TAGS.format(max_tags, MAX_TAGS_BYTES)
    failures = {change.id: refusal for change in changes if change.is_refused}
    made = [change for change in changes if not change.is_refused]
    changed, kinds = [change.id for change in made], {change.tags for change in made}
    undo: AgentActionUndo | None = None
    if len(kinds) == 1:  # otherwise no single call takes from each agent what it got
        undo = {"action": INVERSES[selection.action], "agents": changed, "tags": kinds.pop()}
    return ActionResult(0, changed, failures, None, undo)


async def _clear(request: web.Request, agent_ids: Sequence[UUID], actor: str) -> ActionResult:
    """Clear up to MAX_NOTIFICATIONS. The agent at which that number was reached may have more."""
    notifications, now = request.app[STORAGE].notifications, request.app[CLOCK].now()
    cleared = await notifications.clear_active(agent_ids, MAX_NOTIFICATIONS, now, actor=actor)
    cleared_agents = {each.agent_id for each in cleared}
    changed = [agent_id for agent_id in agent_ids if agent_id in cleared_agents]
    ids = [each.id for each in cleared]
    undo: AgentActionUndo | None = {"action": AgentAction.UNCLEAR, "notifications": ids} if ids else None
    rest = (changed or agent_ids[:1])[-1] if cleared.is_cut else None
    return ActionResult(0, changed, {}, rest, undo)


routes = Routes()

NO_FILTERS = AgentFilterQuery().checked({})
MAX_COUNTED = 100_000
NOT_FOUND = "There is no such agent."


@routes.post("/api/cloud/agents/actions/", body=ActOnAgentsBody)
async def act_on_agents(request: web.Request, caller: Caller) -> AgentActionsResponse:
    """Pause, resume, stop, archive, restore, clear or tag many agents: those given, or all that match.

    One call changes up to 1,000 agents, or clears up to 1,000 notifications, in about five seconds. Repeat it
    with its `next` as `after` for the rest; agents that are as the action leaves them stay untouched. Try it
    with `dry_run` first. `undo` is the body of the call that undoes this one. An agent of another
    organization is refused with 403, before anything is changed.
    """
    body = await read_body(request)
    with request[PLACE].more(ACTION_UNITS):
        if body["action"] is AgentAction.UNCLEAR:
            return await _unclear(request, caller, body)
        return await _act(request, caller, body)


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
