"""The status of the service for operators: query and responses."""

from collections.abc import Sequence
from datetime import datetime
from typing import TypedDict

from storage.delivery.outbox import OutboxSize
from storage.model import AgentStatus
from storage.postgres.pool import PoolSize
from supervisors.engine.snapshot import (
    AgentsResponse,
    QuarantinedAgent,
    RunsResponse,
    Spread,
    SupervisorsResponse,
    TimersResponse,
)
from supervisors.policy.phases import Phase
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


class StatusResponse(TypedDict):
    """The whole service in numbers."""

    service: ServiceResponse
    """The process and its state."""
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
