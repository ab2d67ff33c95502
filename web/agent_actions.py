"""Actions on many agents: one part of them at a time, bounded in number and in time."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from aiohttp import web

from storage.agents.actions import AgentAction, Candidate, Selection
from storage.agents.tags import MAX_TAGS_BYTES
from storage.model import AgentStatus
from supervisors.bulk_requests import ask_each
from supervisors.engine.messages import (
    OwnedFieldsRequest,
    Request,
    RestoreRequest,
    StopReply,
    StopRequest,
)
from web.app_keys import CLOCK, REGISTRY, SETTINGS, STORAGE
from web.schemas.agent_actions import MAX_AGENTS, MAX_NOTIFICATIONS, AgentActionUndo

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


@dataclass(slots=True)
class Part:
    """The agents that one call takes on: those that change, and where the rest begins."""

    candidates: Sequence[Candidate]
    agent_ids: list[UUID]
    next: UUID | None

    def count_before(self, agent_id: UUID | None) -> int:
        """Count the candidates before this one; all that were looked at if it is None."""
        ids = [candidate.id for candidate in self.candidates]
        return len(ids) if agent_id is None else ids.index(agent_id)


def part_of(candidates: Sequence[Candidate]) -> Part:
    """Return the part of the agents that one call takes on."""
    agent_ids: list[UUID] = []
    for place, candidate in enumerate(candidates):
        if place == MAX_LOOKED_AT or (candidate.changes and len(agent_ids) == MAX_AGENTS):
            return Part(candidates, agent_ids, candidate.id)
        if candidate.changes:
            agent_ids.append(candidate.id)
    return Part(candidates, agent_ids, None)


async def perform(request: web.Request, selection: Selection, actor: str, reason: str) -> ActionResult:
    """Perform the action on the first part of the selection."""
    selections = request.app[STORAGE].agent_selections
    part = part_of(await selections.list_candidates(selection, MAX_LOOKED_AT + 1))
    match selection.action:
        case AgentAction.CLEAR:
            result = await _clear(request, part.agent_ids, actor)
        case AgentAction.TAG | AgentAction.UNTAG:
            result = await _change_tags(request, part.agent_ids, selection, actor)
        case action:
            result = await _ask(request, part.agent_ids, action, actor, reason)
    result.next = result.next or part.next
    result.matched = part.count_before(result.next) + (result.next in result.changed)
    return result


async def _ask(
    request: web.Request, agent_ids: Sequence[UUID], action: AgentAction, actor: str, reason: str
) -> ActionResult:
    """Ask the supervisors of the agents, which own their states."""
    app = request.app
    message = _request_of(action, actor, reason)
    answers = await ask_each(app[REGISTRY].ask, agent_ids, message, app[CLOCK], MAX_SECONDS)
    changed = [agent_id for agent_id in agent_ids if answers.replies.get(agent_id) not in UNCHANGED]
    undo: AgentActionUndo | None = None
    if changed and action in INVERSES:
        undo = {"action": INVERSES[action], "agents": changed}
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
    undo: AgentActionUndo | None = None
    if cleared:
        undo = {"action": AgentAction.UNCLEAR, "notifications": [each.id for each in cleared]}
    rest = (changed or agent_ids[:1])[-1] if cleared.is_cut else None
    return ActionResult(0, changed, {}, rest, undo)
