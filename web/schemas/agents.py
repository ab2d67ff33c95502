"""Agents: request bodies, queries and responses."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, TypedDict
from uuid import UUID

from marshmallow import ValidationError

from storage.model import Agent, AgentStatus, Purpose, ReasoningEffort
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


class AgentBody(Body):
    """The writable fields. The last five are owned by the supervisor: writing one is a message to it."""

    template_id = Uuid(data_key="template", allow_none=True, load_default=None)
    parent_id = Uuid(data_key="parent", allow_none=True, load_default=None)
    adapters = ListOf(Uuid(), load_default=list)
    tags = ListOf(Line(blank=False, max_length=255), load_default=list)
    name = Line(required=True, blank=False, max_length=255)
    model = Line(blank=False, max_length=255)
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

    status = Choice(AgentStatus)
    sleep_until = Datetime(allow_none=True)
    run_started_at = Datetime(allow_none=True)
    last_wake_reason = Line(max_length=64)
    last_wake_interrupted_sleep_until = Datetime(allow_none=True)

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
    tags = ListOf(Line(blank=False, max_length=255), required=True)


DATETIME_FIELDS = ("sleep_until", "run_started_at", "last_wake_interrupted_sleep_until")


class AgentQuery(PageQuery):
    include_archived = Boolean(load_default=False)
    organization = Uuid(load_default=None)
    purpose = Choice(Purpose, load_default=None)
    tag = ListOf(Line(blank=False, max_length=255), load_default=list)
    template = Uuid(load_default=None)
    status = Choice(AgentStatus, load_default=None)
    """Only agents with this status; `archived` needs no `include_archived`."""
    parent = Uuid(load_default=None)
    """Only the sub-agents of this agent."""
    name = Line(blank=False, load_default=None)
    """Only agents with exactly this name; upper and lower case are the same."""
    search = Line(load_default=None)
    """Only agents whose name contains this text; upper and lower case are the same."""


class AgentResponse(TypedDict):
    id: UUID
    adapters: Sequence[UUID]
    organization: UUID
    template: UUID | None
    parent_name: str
    template_name: str | None
    tags: Sequence[str]
    name: str
    model: str
    created_at: datetime
    timezone: str
    system_prompt: str
    sleep_until: datetime | None
    email_alias: str | None
    status: AgentStatus
    run_started_at: datetime | None
    last_wake_reason: str
    last_wake_interrupted_sleep_until: datetime | None
    max_turns: int
    max_sleep_hours: int | None
    harness_git_ref: str | None
    reasoning_effort: str
    debounce_window_seconds: int | None
    call_voice_id: str
    purpose: Purpose
    parent: UUID | None
    max_cost_usd_per_day: Decimal | None


def serialize_agent(agent: Agent) -> AgentResponse:
    return {
        "id": agent.id,
        "adapters": agent.adapters,
        "organization": agent.organization_id,
        "template": agent.template_id,
        "parent_name": agent.parent_name,
        "template_name": agent.template_name,
        "tags": agent.tags,
        "name": agent.name,
        "model": agent.model,
        "created_at": agent.created_at,
        "timezone": agent.timezone,
        "system_prompt": agent.system_prompt,
        "sleep_until": agent.sleep_until,
        "email_alias": agent.email_alias,
        "status": agent.status,
        "run_started_at": agent.run_started_at,
        "last_wake_reason": agent.last_wake_reason,
        "last_wake_interrupted_sleep_until": agent.last_wake_interrupted_sleep_until,
        "max_turns": agent.max_turns,
        "max_sleep_hours": agent.max_sleep_hours,
        "harness_git_ref": agent.harness_git_ref,
        "reasoning_effort": agent.reasoning_effort,
        "debounce_window_seconds": agent.debounce_window_seconds,
        "call_voice_id": agent.call_voice_id,
        "purpose": agent.purpose,
        "parent": agent.parent_id,
        "max_cost_usd_per_day": agent.max_cost_usd_per_day,
    }
