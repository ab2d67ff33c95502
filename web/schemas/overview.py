"""The overview of organizations: query and response."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypedDict
from uuid import UUID

from supervisors.overview.overviews import (
    AgendaItem,
    AgendaKind,
    AttentionItem,
    AttentionKind,
    OrganizationsOverview,
)
from supervisors.policy.phases import ShownPhase
from web.fields import Uuid
from web.request.parsing import Body
from web.serializers import Serializer


class OverviewQuery(Body):
    organization = Uuid(load_default=None)
    """Only this organization. Left out: all of yours."""


class AttentionResponse(TypedDict):
    """Something that needs a person."""

    kind: AttentionKind
    """What it is."""
    sentence: str
    """What is wrong and what follows from it, in a sentence or two for people."""
    since: datetime | None
    """Since when; null if it is not known."""
    organization: UUID
    """The organization that it is about."""
    agent: UUID | None
    """The agent that it is about; null if it is about something else."""
    agent_name: str | None
    """The name of the agent; null if it is about something else."""
    timezone: str | None
    """The IANA time zone of the agent; null if it is about something else."""
    webhook: UUID | None
    """The event webhook that it is about; null if it is about something else."""


class AgendaResponse(TypedDict):
    """A wake that lies ahead."""

    at: datetime
    """When the agent wakes, unless something else wakes it earlier."""
    kind: AgendaKind
    """The cause."""
    because: str
    """The cause, as a sentence; a reminder with its title."""
    agent: UUID
    """The agent."""
    agent_name: str
    """The name of the agent."""
    timezone: str
    """The IANA time zone of the agent."""


class OverviewResponse(TypedDict):
    """What the agents of organizations do, what needs a person, and who wakes in the next 24 hours."""

    as_of: datetime
    """The moment that the answer is about."""
    sentence: str
    """How many agents do what, and how many things need a person, as sentences."""
    phases: Mapping[ShownPhase, int]
    """How many agents are in each phase; a phase without any is left out."""
    attention: Sequence[AttentionResponse]
    """What needs a person, at most 20 of each kind, the longest-standing first. Agents of a paused
    organization are left out."""
    attention_total: int
    """How many things need a person."""
    attention_counts: Mapping[AttentionKind, int]
    """How many there are of each kind. Of `forgotten`, `uncleared_high` and `failing_webhook`, at most 100
    are counted."""
    agenda: Sequence[AgendaResponse]
    """The wakes of the next 24 hours, at most 100, the next one first."""
    agenda_total: int
    """How many wakes there are. Beyond 100, moments at which an agent acts without waking count, too."""


def serialize_overview(overview: OrganizationsOverview) -> OverviewResponse:
    attention = overview.attention
    return {
        "as_of": overview.as_of,
        "sentence": overview.sentence,
        "phases": overview.phases,
        "attention": [_serialize_attention(item) for item in attention.items],
        "attention_total": attention.counts.total(),
        "attention_counts": attention.counts,
        "agenda": [_serialize_agenda(item) for item in overview.agenda],
        "agenda_total": overview.agenda_total,
    }


def _serialize_attention(item: AttentionItem) -> AttentionResponse:
    agent = item.agent
    return {
        "kind": item.kind,
        "sentence": item.sentence,
        "since": item.since,
        "organization": item.organization_id,
        "agent": agent.agent_id if agent else None,
        "agent_name": agent.name if agent else None,
        "timezone": agent.timezone if agent else None,
        "webhook": item.webhook_id,
    }


_serialize_agenda = Serializer(
    AgendaResponse, AgendaItem, agent="agent.agent_id", agent_name="agent.name", timezone="agent.timezone"
)
