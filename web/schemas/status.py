"""The status of the service for operators: query and responses."""

from collections.abc import Sequence
from datetime import datetime
from typing import TypedDict

from storage.delivery.outbox import OutboxSize
from storage.postgres.pool import PoolSize
from supervisors.engine.snapshot import (
    AgentsResponse,
    RunsResponse,
    Spread,
    SupervisorsResponse,
    TimersResponse,
)
from supervisors.policy.phases import Phase
from web.fields import Choice, Integer, Uuid
from web.ports import HarnessStatus, ServiceState
from web.request.parsing import Body

DEFAULT_LIMIT = 100


class SupervisorQuery(Body):
    phase = Choice(Phase, load_default=None)
    organization = Uuid(load_default=None)
    limit = Integer(min_value=1, max_value=1000, load_default=DEFAULT_LIMIT)


class ServiceResponse(TypedDict):
    version: str
    started_at: datetime
    uptime_seconds: float
    state: ServiceState
    reasons: Sequence[str]


class StatusResponse(TypedDict):
    """The whole service in numbers."""

    service: ServiceResponse
    harness: HarnessStatus
    supervisors: SupervisorsResponse
    agents: AgentsResponse
    runs: RunsResponse
    timers: TimersResponse
    oldest_uncleared_high_seconds: float | None
    loop_lag_ms: Spread
    database: PoolSize
    outbox: OutboxSize
