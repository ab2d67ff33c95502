"""Agents: request bodies, queries and responses."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, TypedDict
from uuid import UUID

from marshmallow import ValidationError

from storage.model import Agent, AgentStatus, Language, Purpose, ReasoningEffort, Unpriced
from web.fields import (
    MAX_INT32,
    MIN_INT32,
    REQUIRED,
    Boolean,
    Choice,
    Datetime,
    Integer,
    Line,
    ListOf,
    LocalPart,
    Money,
    Text,
    Timezone,
    Uuid,
)
from web.paging import PageQuery
from web.request.parsing import Body
from web.serializers import Serializer


class AgentBody(Body):
    """The writable fields of an agent.

    `paused`, `status` and `sleep_until` are owned by its supervisor: writing one is a message to it, and they
    are applied in this order. `run_started_at` and `last_wake_…` only runs change: a value for one of them is
    checked, but has no effect.
    """

    template_id = Uuid(data_key="template", allow_none=True, load_default=None)
    parent_id = Uuid(data_key="parent", allow_none=True, load_default=None)
    adapters = ListOf(Uuid(), load_default=list)
    tags = ListOf(Line(blank=False, max_length=255), load_default=list)
    name = Line(required=True, blank=False, max_length=255)
    model = Line(blank=False, max_length=255)
    """The model, as `<provider>/<name>`, without a provider at the default one. It may be left out if the
    template has a `default_model`, which is then copied."""
    timezone = Timezone(load_default="UTC", blank=False, max_length=255)
    system_prompt = Text(load_default="")
    email_alias = LocalPart(allow_none=True, load_default=None, blank=False, max_length=255)
    max_turns = Integer(min_value=MIN_INT32, max_value=MAX_INT32, load_default=0)
    max_sleep_hours = Integer(min_value=0, max_value=MAX_INT32, allow_none=True, load_default=None)
    harness_git_ref = Line(allow_none=True, load_default=None, max_length=255)
    reasoning_effort = Choice(ReasoningEffort, blank=True, load_default="")
    debounce_window_seconds = Integer(min_value=0, max_value=MAX_INT32, allow_none=True, load_default=None)
    call_voice_id = Line(load_default="", max_length=255)
    purpose = Choice(Purpose, load_default=Purpose.PRODUCTION)
    max_cost_usd_per_day = Money(allow_none=True, load_default=None)
    language = Choice(Language, blank=True, load_default="")
    unpriced = Choice(Unpriced, allow_none=True, load_default=None)

    paused = Boolean()
    """A message to the supervisor: true stops the agent's run and holds every start, false lets what has
    fallen due start it."""
    status = Choice(AgentStatus)
    """A message to the supervisor: `running` requests a run, `sleeping` stops a run or restores an archived
    agent, `archived` archives it. The answer shows `running` only if a run has started."""
    sleep_until = Datetime(allow_none=True)
    """A message to the supervisor: when to wake, at the latest when `max_sleep_hours` allows, as with null; a
    time in the past wakes the agent now. During a run it applies if the run ends without asking for sleep."""
    run_started_at = Datetime(allow_none=True)
    """A datetime or null, without effect: only a run has a start, and the answer shows that of the active
    one."""
    last_wake_reason = Line(max_length=64)
    """Checked, but without effect: the answer shows why the last run started."""
    last_wake_interrupted_sleep_until = Datetime(allow_none=True)
    """A datetime or null, without effect: the answer shows which sleep the start of the last run cut
    short."""

    def checked(self, values: Mapping[str, Any], *, partial: bool = False) -> dict[str, Any]:
        """Check like any body, and report a missing model together with the other missing fields.

        The model may be left out if a template is named.
        """
        lacks_model = not (partial or "model" in values or values.get("template"))
        try:
            checked = super().checked(values, partial=partial)
        except ValidationError as error:
            if lacks_model:
                raise ValidationError({**error.messages_dict, "model": [REQUIRED]}) from error
            raise
        if lacks_model:
            raise ValidationError({"model": [REQUIRED]})
        return checked

    def check_together(self, checked: Mapping[str, Any]) -> None:
        if checked.get("status") is AgentStatus.ARCHIVED and checked.get("sleep_until") is not None:
            raise ValidationError({"sleep_until": ["An archived agent does not sleep."]})


class TagsBody(Body):
    """Tags to add or to remove."""

    tags = ListOf(Line(blank=False, max_length=255), required=True)
    """Tags that the agent already has, or has not, do no harm."""


DATETIME_FIELDS = ("sleep_until", "run_started_at", "last_wake_interrupted_sleep_until")


class AgentFilterQuery(Body):
    """The agents that a list shows."""

    include_archived = Boolean(load_default=False)
    """Whether archived agents are listed, too."""
    organization = Uuid(load_default=None)
    """Only agents of this organization, for users who belong to several."""
    purpose = Choice(Purpose, load_default=None)
    """Only agents with this purpose."""
    tag = ListOf(Line(blank=False, max_length=255), load_default=list)
    """Only agents with this tag; repeat it to ask for several, all of which an agent must have."""
    template = Uuid(load_default=None)
    """Only agents of this template."""
    status = Choice(AgentStatus, load_default=None)
    """Only agents with this status; `archived` implies `include_archived`."""
    parent = Uuid(load_default=None)
    """Only the children of this agent."""
    name = Line(blank=False, load_default=None)
    """Only agents with exactly this name, ignoring case."""
    search = Line(load_default=None)
    """Only agents whose name contains this text, ignoring case."""


class AgentQuery(AgentFilterQuery, PageQuery):
    pass


class AgentResponse(TypedDict):
    """A long-lived worker. It sleeps, runs when something wakes it, and sleeps again."""

    id: UUID
    """Chosen by the service."""
    adapters: Sequence[UUID]
    """The adapters whose tools the agent has. If tools have the same name, that of an earlier adapter keeps
    it."""
    organization: UUID
    """The organization that the agent belongs to."""
    template: UUID | None
    """The template whose settings the agent takes where its own are blank; null: none."""
    parent_name: str
    """The name of the parent; "" if there is none."""
    template_name: str | None
    """The name of the template; null if there is none."""
    tags: Sequence[str]
    """Labels of yours to filter by, in the order in which they were added."""
    name: str
    """Any name; several agents may have the same."""
    model: str
    """The model, as `<provider>/<name>`; without a provider at the default one. `builtin/inbox` needs no
    network."""
    created_at: datetime
    """When the agent was created."""
    timezone: str
    """An IANA time zone, in which the agent is told the time, and in which a datetime without an offset is
    read."""
    system_prompt: str
    """Instructions to the model; "": those of the template."""
    sleep_until: datetime | None
    """When the agent wakes by itself; null while it runs, or if only something new wakes it."""
    email_alias: str | None
    """The local part of the agent's e-mail address, unique in the whole service, ignoring case; null: none.
    The service only stores it."""
    status: AgentStatus
    """Whether the agent runs, sleeps or is archived."""
    paused: bool
    """Whether the agent is paused: its run is stopped and nothing starts it. What comes or falls due wakes it
    when the pause ends."""
    run_started_at: datetime | None
    """When the active run started; null if there is none."""
    last_wake_reason: str
    """Why the last run started: `run_requested`, `notification:<source>`, `reminder`, `sleep_elapsed`,
    `restart_recovery`, `retry_after_failure` or `uncleared_notifications`; "" before the first run."""
    last_wake_interrupted_sleep_until: datetime | None
    """The `sleep_until` that the start of the last run cut short; null if there was none."""
    max_turns: int
    """How many turns a run may have. 0: the template's limit, else `runs.max_turns`; a negative number: no
    limit."""
    max_sleep_hours: int | None
    """The maximum length of a sleep in hours, counted from the start of the run; null: no limit. A change
    applies from the next run on."""
    harness_git_ref: str | None
    """The branch, tag or commit whose code a process harness runs; null or "": that of the template, else the
    newest `main`."""
    reasoning_effort: str
    """How much the model should think; "": the effort of the template. `none` sends no effort to the
    model."""
    debounce_window_seconds: int | None
    """How many seconds a conversation must pause before it wakes the agent. 0: it wakes at once; null: the
    template's window."""
    call_voice_id: str
    """Only stored; it has no effect."""
    purpose: Purpose
    """A label to filter by; it has no other effect."""
    parent: UUID | None
    """The agent that this one works for; null: none. Both can send messages to each other, and parents make
    no cycle."""
    max_cost_usd_per_day: Decimal | None
    """What the agent may spend in a UTC day, in US dollars with at most six decimals; null: as much as the
    template allows. 0 allows no run."""
    language: str
    """The language whose word stems searches find, in documents that are written from then on; "": words are
    found only as they are written."""
    unpriced: Unpriced | None
    """Whether the agent's cap allows calls of models whose price is not known; null: the template says."""


serialize_agent = Serializer(AgentResponse, Agent)
