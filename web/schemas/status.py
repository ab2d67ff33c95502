"""The status of the service for operators: query and responses."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from platform import python_version
from typing import TypedDict
from uuid import UUID

from storage.delivery.outbox import OutboxSize
from storage.model import AgentStatus
from storage.postgres.pool import PoolSize
from storage.service_facts import Facts
from supervisors.engine.snapshot import (
    AgentsResponse,
    QuarantinedAgent,
    RunsResponse,
    Spread,
    SupervisorsResponse,
    TimersResponse,
)
from supervisors.policy.phases import Phase, ShownPhase
from web.fields import Choice, Integer, Line, Uuid
from web.ports import HarnessStatus, ServiceState
from web.request.parsing import Body

DEFAULT_LIMIT = 100


class SupervisorQuery(Body):
    phase = Choice(Phase, load_default=None)
    """Only agents in this phase."""
    status = Choice(AgentStatus, load_default=None)
    """Only agents with this status, which covers several phases."""
    organization = Uuid(load_default=None)
    """Only agents of this organization."""
    name = Line(blank=False, max_length=255, load_default=None)
    """Only agents with exactly this name, ignoring case."""
    limit = Integer(min_value=1, max_value=1000, load_default=DEFAULT_LIMIT)
    """The maximum number of agents."""


class ServiceResponse(TypedDict):
    """The service process."""

    version: str
    """The version of the service."""
    started_at: datetime
    """When the process started to serve."""
    uptime_seconds: float
    """Seconds since then."""
    state: ServiceState
    """Whether it serves, drains or has a problem."""
    reasons: Sequence[str]
    """A sentence for each problem; none if all is well."""


class VersionsResponse(TypedDict):
    """The versions of what the service is made of."""

    python: str
    """The version of Python."""
    postgresql: str | None
    """The version of the database server; null before it was read."""
    schema: int | None
    """The number of the last migration; null before it was read."""


class LeadResponse(TypedDict):
    """The lead, which one instance has. Those that stand by do not answer this request."""

    is_held: bool
    """Whether this instance has the lead; if not, it is regaining it, and no run starts."""
    epoch: int | None
    """The number of times that an instance has taken the lead; null before it was read."""
    standbys: int | None
    """How many other instances wait for the lead; null before it was read."""


class OldestResponse(TypedDict):
    """The high-priority notification that has been uncleared for the longest time."""

    agent: UUID
    """The agent whose queue it is in."""
    name: str
    """The name of the agent."""
    organization: UUID
    """The organization that the agent belongs to."""
    since: datetime
    """When the notification became active."""


class ForgottenResponse(TypedDict):
    """An agent that nothing will start, although a high-priority notification is active."""

    agent: UUID
    """The agent."""
    since: datetime
    """Since when this has been seen."""


class StatusResponse(TypedDict):
    """The whole service in numbers."""

    sentence: str
    """How the service is, and how busy, as sentences."""
    service: ServiceResponse
    """The process and its state."""
    versions: VersionsResponse
    """What the service is made of."""
    lead: LeadResponse
    """The lead, and who waits for it."""
    phases: Mapping[ShownPhase, int]
    """How many agents of all organizations are in each phase; one without any is left out."""
    oldest_uncleared_high: OldestResponse | None
    """The longest uncleared notification and its agent; null if there is none."""
    failing_webhooks: int
    """How many event webhooks fail, or were switched off by the service."""
    forgotten: Sequence[ForgottenResponse]
    """Agents that nothing will start although they have work; there should be none."""
    harness: HarnessStatus
    """How runs are executed."""
    supervisors: SupervisorsResponse
    """The supervisors in memory."""
    quarantined: Sequence[QuarantinedAgent]
    """At most 20 agents in quarantine, by id, as read one scan interval ago; `supervisors` counts all."""
    agents: AgentsResponse
    """The agents by status, counted at most one scan interval ago."""
    runs: RunsResponse
    """The run slots."""
    timers: TimersResponse
    """The moments at which agents must act next."""
    oldest_uncleared_high_seconds: float | None
    """Seconds since the longest active notification of all agents became active; null if none is active."""
    loop_lag_ms: Spread
    """How late the event loop wakes up."""
    database: PoolSize
    """The connections to the database."""
    outbox: OutboxSize
    """The webhooks that are pending or were given up."""


def serialize_versions(facts: Facts | None) -> VersionsResponse:
    return {
        "python": python_version(),
        "postgresql": facts.postgresql if facts else None,
        "schema": facts.schema_version if facts else None,
    }


def serialize_lead(facts: Facts | None, *, is_held: bool) -> LeadResponse:
    return {
        "is_held": is_held,
        "epoch": facts.epoch if facts else None,
        "standbys": facts.standbys if facts else None,
    }


def serialize_oldest(facts: Facts | None) -> OldestResponse | None:
    oldest = facts.oldest_active if facts else None
    if oldest is None:
        return None
    return {
        "agent": oldest.agent_id,
        "name": oldest.name,
        "organization": oldest.organization_id,
        "since": oldest.since,
    }
