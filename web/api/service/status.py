"""The status of the service and of each agent's supervisor, for operators."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from platform import python_version
from typing import TypedDict
from uuid import UUID

from aiohttp import web

from storage.delivery.outbox import OutboxSize
from storage.model import AgentStatus
from storage.postgres.pool import PoolSize
from storage.service_facts import Facts
from supervisors.engine.snapshot import (
    AgentsResponse,
    QuarantinedAgent,
    RunsResponse,
    Snapshot,
    SnapshotFilters,
    Spread,
    SupervisorsResponse,
    TimersResponse,
)
from supervisors.organization_overview import service_sentence, shown_phases
from supervisors.policy.phases import Phase, ShownPhase
from web.access.path_access import path_id
from web.api.supervision.supervisors import AT, answer_supervisor
from web.api.supervision.timeline import PastSupervisorResponse
from web.app_keys import CLOCK, HARNESS, HEALTH, STARTED_AT, STATUS, STORAGE
from web.fields import Choice, Integer, Line, Uuid
from web.json import MAX_ANSWER_BYTES, fit, json_response
from web.ports import HarnessStatus, Readiness, ServiceState
from web.request.parsing import Body, read_query
from web.routes import Access, Routes
from web.version import VERSION

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


routes = Routes(Access.OPERATORS)

QUERY = SupervisorQuery()


@routes.get("/status/", answer=StatusResponse)
async def get_status(request: web.Request) -> web.Response:
    """Return the state of the service, and everything that it does in numbers."""
    app = request.app
    readiness, numbers = await app[HEALTH].readiness(), app[STATUS].numbers()
    facts = app[STORAGE].service_facts.last
    answer: StatusResponse = {
        "sentence": _sentence(readiness, numbers.runs),
        "service": _service_response(app, readiness),
        "versions": serialize_versions(facts),
        "lead": serialize_lead(facts, is_held=readiness.leads),
        "phases": shown_phases(facts.phases) if facts else {},
        "oldest_uncleared_high": serialize_oldest(facts),
        "failing_webhooks": facts.failing_webhooks if facts else 0,
        "forgotten": [{"agent": one, "since": since} for one, since in app[HEALTH].forgotten().items()],
        "harness": app[HARNESS](),
        "supervisors": numbers.supervisors,
        "quarantined": numbers.quarantined,
        "agents": numbers.agents,
        "runs": numbers.runs,
        "timers": numbers.timers,
        "oldest_uncleared_high_seconds": numbers.oldest_uncleared_high_seconds,
        "loop_lag_ms": numbers.loop_lag_ms,
        "database": app[STORAGE].pool.size(),
        "outbox": app[STORAGE].outbox.last_size,
    }
    return json_response(answer)


def _sentence(readiness: Readiness, runs: RunsResponse) -> str:
    return service_sentence(
        is_draining=readiness.state is ServiceState.DRAINING,
        problems=len(readiness.reasons),
        running=runs.running,
        slots=runs.limit,
        queued=runs.queued,
    )


def _service_response(app: web.Application, readiness: Readiness) -> ServiceResponse:
    started_at = app[STARTED_AT]
    return {
        "version": VERSION,
        "started_at": started_at,
        "uptime_seconds": (app[CLOCK].now() - started_at).total_seconds(),
        "state": readiness.state,
        "reasons": readiness.reasons,
    }


@routes.get("/status/supervisors/", answer=list[Snapshot], query=QUERY)
async def list_supervisors(request: web.Request) -> web.Response:
    """List up to `limit` agents by id, fewer if the answer would be longer than 1 MiB."""
    query = read_query(request, QUERY)
    filters = SnapshotFilters(query["phase"], query["status"], query["organization"], query["name"])
    snapshots = await request.app[STATUS].snapshots(filters, query["limit"])
    return json_response(fit(snapshots, MAX_ANSWER_BYTES))


@routes.get("/status/supervisors/{id}/", answer=Snapshot | PastSupervisorResponse, query=AT)
async def get_any_supervisor(request: web.Request) -> web.Response:
    """Explain what an agent of any organization is doing and why, and what wakes it next.

    With `at`, as it was at that moment.
    """
    return await answer_supervisor(request, path_id(request))
