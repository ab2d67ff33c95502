"""Events: queries, what a stream or a list shows of them, and the data that each type has."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import NotRequired, TypedDict
from uuid import UUID

from storage.events.model import SHOWN_TYPES, EventType
from storage.model import Outcome, Priority, Source
from storage.notifications.schedules import OccurrenceOutcome
from storage.parked_calls import CallKind
from supervisors.events.subscription import MODEL_DELTA
from web.api.agents.agents import AgentResponse
from web.api.agents.runs import RunResponse
from web.api.channels.messages import MessageResponse
from web.api.channels.notifications import NotificationResponse
from web.api.organizations.webhooks import DeliveryResponse
from web.fields import EventTypePattern, Integer, Line, ListOf, Text, Uuid
from web.request.parsing import Body

RESET = "reset"
STREAMED_TYPES = (*SHOWN_TYPES, MODEL_DELTA)
MAX_CURSOR = 2**63 - 1
MAX_PATTERNS = 50
MAX_EVENTS = 1000
DEFAULT_EVENTS = 100
MAX_WAIT_SECONDS = 60


class EventQuery(Body):
    """Which events to send, from where on, and how."""

    type = ListOf(EventTypePattern(STREAMED_TYPES), max_items=MAX_PATTERNS, load_default=list)
    """Only events of this type, such as `run.ended`, or of a family, `run.*`. Repeat it for several."""
    after = Integer(min_value=0, max_value=MAX_CURSOR, load_default=None)
    """The cursor: events after this id are sent, and 0 stands for the oldest ones. Left out: from now on."""
    limit = Integer(min_value=1, max_value=MAX_EVENTS, load_default=None)
    """Answer once, as JSON, with at most this many events; 100 if only `wait` is given."""
    wait = Integer(min_value=0, max_value=MAX_WAIT_SECONDS, load_default=None)
    """Answer once, as JSON, but wait up to this many seconds for the first event. 0 or left out: at once."""


class TicketEventQuery(EventQuery):
    """The same, for routes that take a ticket."""

    ticket = Text(load_default="")
    """A stream ticket instead of a credential, for clients that cannot send a header."""


class AllEventQuery(TicketEventQuery):
    """Which events of several agents to send."""

    agent = Uuid(load_default=None)
    """Only events of this agent, and pauses of its organization."""
    tag = Line(load_default="", max_length=255)
    """Only events of agents that have this tag when the event is sent. "": of all agents."""


class OperatorEventQuery(EventQuery):
    """Which events of all organizations to send."""

    organization = Uuid(load_default=None)
    """Only events of this organization."""
    agent = Uuid(load_default=None)
    """Only events of this agent, and pauses of its organization."""
    tag = Line(load_default="", max_length=255)
    """Only events of agents that have this tag when the event is sent. "": of all agents."""


class NewTicketBody(Body):
    """A request for a stream ticket, which has no fields."""


class TicketResponse(TypedDict):
    """A ticket for event streams."""

    ticket: str | None
    """The value of `?ticket=`; it can open streams until `expires_at`, and nothing else. null in a repeated
    answer."""
    expires_at: datetime
    """When it can no longer open a stream; streams that are open go on."""


class ActorType(StrEnum):
    """The kinds of those who change something."""

    RUN = "run"
    """A run of an agent, by one of its tools."""
    KEY = "key"
    """An API key."""
    USER = "user"
    """A user."""
    OPERATOR = "operator"
    """The operator of the service."""
    HOOK = "hook"
    """An inbound hook."""
    LINK = "link"
    """Whoever had the link to an approval that a webhook sent."""
    PROGRAM = "program"
    """Another program, which wrote to the database."""
    SERVICE = "service"
    """The service itself, by a rule."""


class ActorResponse(TypedDict):
    """The one who made a change."""

    type: ActorType
    """The kind of actor."""
    id: UUID | None
    """The id of the run, the key, the user, the hook or the approval; null for the others."""


def actor_of(actor: str) -> ActorResponse:
    """Return who made a change, from the column of the event."""
    kind, _, actor_id = actor.partition(":")
    return {"type": ActorType(kind or "service"), "id": UUID(actor_id) if actor_id else None}


class NoData(TypedDict):
    """The data of events that say all with their type."""


class FieldsData(TypedDict):
    """The data of `agent.changed` and `schedule.changed`."""

    fields: list[str]
    """The fields of the API that were changed."""


class PhaseData(TypedDict):
    """The data of `run.started`, and of the events about an agent's phase."""

    from_: str
    """The phase that the agent was in."""
    to: str
    """The phase that the agent is in from now on."""
    why: str
    """The sentence that explains it, as it was then."""
    next_at: NotRequired[datetime]
    """When the agent acts next by itself; left out if nothing is planned."""
    reason: NotRequired[str]
    """The wake reason of the run that starts; left out if none does."""
    outcome: NotRequired[Outcome]
    """How the run ended that is just over; left out if none is."""
    stop_reason: NotRequired[str]
    """The reason given with the stop; left out without one."""


class RunEndedData(TypedDict):
    """The data of `run.ended`."""

    outcome: Outcome
    """How the run ended."""
    turns: int
    """How many turns it had."""
    reason: str
    """Why it had started."""
    error: NotRequired[str]
    """The first 200 characters of what went wrong; left out if nothing did."""


class NotificationCreatedData(TypedDict):
    """The data of `notification.created`."""

    source: Source
    """Where the notification comes from."""
    priority: Priority
    """Whether it wakes the agent."""
    scheduled_for: NotRequired[datetime]
    """When it becomes active; left out if it is at once."""


class NotificationChangedData(TypedDict):
    """The data of `notification.changed`."""

    fields: list[str]
    """The fields of the API that were changed."""
    priority: NotRequired[Priority]
    """The new priority; left out if it was not changed."""
    scheduled_for: NotRequired[datetime | None]
    """The new moment; null: it is active at once; left out if it was not changed."""


class MessageData(TypedDict):
    """The data of `message.received`, `message.sent` and `message.failed`."""

    contact: UUID | None
    """The contact; null if the message has none."""
    channel: str
    """The channel that the message goes by."""


class DeletedData(TypedDict):
    """The data of `agent.deleted`. Nothing is told of an agent that another program deleted."""

    name: NotRequired[str]
    """The name that the agent had."""
    deleted_with: NotRequired[Mapping[str, int]]
    """How many of what was deleted with it, such as `{"schedule": 2}`: each `schedule`, `hook`,
    `approval` that waited and `approval_grant`."""


class BudgetData(TypedDict):
    """The data of `budget.reached`."""

    of: str
    """`agent` or `organization`: whose budget it is."""
    cap_usd: float
    """What may be spent in a UTC day."""
    spent_usd: float
    """What has been spent since midnight."""


class WebhookData(TypedDict):
    """The data of `webhook.disabled`."""

    url: str
    """Where the webhook goes."""
    error: str
    """Why the last attempt failed."""


class GivenUpData(WebhookData):
    """The data of `webhook.given_up`."""

    type: str
    """The type of the event that was not delivered, such as `run.ended`."""


class HookData(TypedDict):
    """The data of `hook.ignored` and `hook.refused`."""

    error: str
    """Why the delivery became no notification."""


class OccurredData(TypedDict):
    """The data of `schedule.occurred`."""

    outcome: OccurrenceOutcome
    """What became of the moment."""
    occurs_at: datetime
    """The moment that was planned, or that of the request."""
    missed_count: int
    """How many earlier moments it stands for."""
    notification: UUID | None
    """The notification that it has made or updated; null without one."""


class ApprovalData(TypedDict):
    """What the data of all events `approval.*` have."""

    kind: CallKind
    """What the call waits for."""
    tool: str
    """The tool that was called."""


class AskedData(ApprovalData):
    """The data of `approval.requested` and `approval.reminded`."""

    expires_at: datetime | None
    """When the wait ends without a decision; null: never."""


class DecidedData(ApprovalData):
    """The data of `approval.decided`."""

    approved: bool
    """Whether the call may be made, or the question was answered."""
    note: str
    """The first 200 characters of what the person has added; "" if nothing was."""
    grant: UUID | None
    """The grant that lets later calls through; null if none was given."""


class OutcomeData(ApprovalData):
    """The data of `approval.expired` and `approval.withdrawn`."""

    outcome: str
    """The sentence that says what ended the wait."""


class ModelDeltaData(TypedDict):
    """The data of `model.delta`."""

    turn: int
    """The turn of the run, whose answer this is a part of."""
    offset: int
    """How many characters of the answer come before this part."""
    text: str
    """What the model has written."""


Data = (
    PhaseData
    | RunEndedData
    | NotificationCreatedData
    | NotificationChangedData
    | FieldsData
    | MessageData
    | DeletedData
    | BudgetData
    | GivenUpData
    | WebhookData
    | HookData
    | OccurredData
    | AskedData
    | DecidedData
    | OutcomeData
    | ModelDeltaData
    | NoData
)
Resource = AgentResponse | RunResponse | NotificationResponse | MessageResponse | DeliveryResponse

DATA: Mapping[str, type] = {
    EventType.AGENT_CREATED: NoData,
    EventType.AGENT_CHANGED: FieldsData,
    EventType.AGENT_DELETED: DeletedData,
    EventType.AGENT_ASLEEP: PhaseData,
    EventType.AGENT_HOLDING: PhaseData,
    EventType.AGENT_QUEUED: PhaseData,
    EventType.AGENT_BACKING_OFF: PhaseData,
    EventType.AGENT_QUARANTINED: PhaseData,
    EventType.AGENT_OVER_BUDGET: PhaseData,
    EventType.AGENT_HELD_BY_LIMITS: PhaseData,
    EventType.AGENT_PAUSED: PhaseData,
    EventType.AGENT_UNPAUSED: PhaseData,
    EventType.AGENT_STOPPING: PhaseData,
    EventType.AGENT_STOPPED: PhaseData,
    EventType.AGENT_ARCHIVED: PhaseData,
    EventType.AGENT_RESTORED: PhaseData,
    EventType.AGENT_RESCHEDULED: PhaseData,
    EventType.RUN_STARTED: PhaseData,
    EventType.RUN_ENDED: RunEndedData,
    EventType.NOTIFICATION_CREATED: NotificationCreatedData,
    EventType.NOTIFICATION_CHANGED: NotificationChangedData,
    EventType.NOTIFICATION_CLEARED: NoData,
    EventType.NOTIFICATION_DELETED: NoData,
    EventType.MESSAGE_RECEIVED: MessageData,
    EventType.MESSAGE_SENT: MessageData,
    EventType.MESSAGE_FAILED: MessageData,
    EventType.BUDGET_REACHED: BudgetData,
    EventType.WEBHOOK_GIVEN_UP: GivenUpData,
    EventType.WEBHOOK_DISABLED: WebhookData,
    EventType.HOOK_IGNORED: HookData,
    EventType.HOOK_REFUSED: HookData,
    EventType.SCHEDULE_CREATED: NoData,
    EventType.SCHEDULE_CHANGED: FieldsData,
    EventType.SCHEDULE_DELETED: NoData,
    EventType.SCHEDULE_OCCURRED: OccurredData,
    EventType.APPROVAL_REQUESTED: AskedData,
    EventType.APPROVAL_REMINDED: AskedData,
    EventType.APPROVAL_DECIDED: DecidedData,
    EventType.APPROVAL_EXPIRED: OutcomeData,
    EventType.APPROVAL_WITHDRAWN: OutcomeData,
    EventType.ORGANIZATION_PAUSED: NoData,
    EventType.ORGANIZATION_UNPAUSED: NoData,
    MODEL_DELTA: ModelDeltaData,
}
"""The shape of the data of each type. docs/events.md is generated from it."""


class EventResponse(TypedDict):
    """A change, as the event log has it."""

    id: int | None
    """Its position, which is the cursor to go on after it; null for `model.delta`, which is not stored."""
    type: str
    """The kind of change, such as `run.ended`. docs/events.md lists all of them."""
    at: datetime
    """When it happened."""
    organization: UUID
    """The organization of the agent."""
    agent: UUID | None
    """The agent, which may have been deleted; null if it concerns the whole organization."""
    run: UUID | None
    """The run that it belongs to; null if none does."""
    resource_id: UUID | None
    """The notification, message, schedule, parked call or delivery that it is about; null if it is about the
    agent or the run."""
    by: ActorResponse
    """Who made the change."""
    data: Data
    """What has changed, with other fields for each type."""
    resource: Resource | None
    """What the event is about, as it is when the event is sent; null if that is gone."""


class EventsResponse(TypedDict):
    """Some events, and where to go on."""

    events: list[EventResponse]
    """The events, oldest first."""
    after: int
    """The cursor to go on with, which may be greater than the id of the last event."""
    reset: bool
    """Whether these do not follow your cursor without a gap: the log no longer has the events after it."""


class ResetResponse(TypedDict):
    """The data of `reset`, with which a stream begins if the events after its cursor are not in the log."""

    type: str
    """`reset`."""
    oldest: int
    """The smallest id that an event can have which is still kept; the stream goes on from there."""


StreamedResponse = EventResponse | ResetResponse
"""The JSON in each event of a stream."""
