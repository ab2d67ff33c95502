"""Actions on many agents: request body and response."""

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict
from uuid import UUID

from marshmallow import RAISE, ValidationError, missing
from marshmallow.fields import Field

from storage.agents.actions import AgentAction
from supervisors.policy.phases import ShownPhase
from web.fields import MAX_ITEMS, REQUIRED, Boolean, Choice, Line, ListOf, ObjectOf, Text, Uuid
from web.request.parsing import Body
from web.schemas.agents import AgentFilterQuery
from web.schemas.runs import MAX_REASON_LENGTH

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
