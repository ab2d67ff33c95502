"""The service as operators see it: liveness, readiness, status with each agent's supervisor, and metrics."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from platform import python_version
from typing import Literal, TypedDict
from uuid import UUID

from aiohttp import web
from prometheus_client.exposition import choose_encoder

from storage.delivery.outbox import OutboxSize
from storage.model import AgentStatus
from storage.postgres.pool import PoolSize
from storage.service_facts import OldestActive
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
from supervisors.organization_overview import shown_phases
from supervisors.policy.phases import Phase, ShownPhase
from web.access.auth import authenticate_scraper
from web.access.path_access import path_id
from web.api.supervision.supervisors import explain_agent
from web.api.supervision.timeline import PastSupervisorResponse, SupervisorAtQuery
from web.app_keys import (
    CLOCK,
    HARNESS,
    HEALTH,
    RATE_LIMITS,
    REQUEST_COUNTS,
    STARTED_AT,
    STATUS,
    STORAGE,
    TOOLSET,
)
from web.errors import Unavailable
from web.fields import Choice, Integer, Line, Uuid
from web.json import MAX_ANSWER_BYTES, fit
from web.observability.metrics import Scrape
from web.ports import HarnessStatus, Readiness, ServiceState
from web.request.parsing import Body, read_query
from web.routes import Access, Routes
from web.serializers import Serializer
from web.settings import VERSION

routes = Routes(Access.OPERATORS)


NOT_READY_RETRY_SECONDS = 5


class AliveResponse(TypedDict):
    """A sign of life."""

    status: Literal["ok"]
    """Always `ok`."""


class ReadyResponse(TypedDict):
    """The state of a service that can serve."""

    state: ServiceState
    """`ready`, or `degraded` with a problem that does not keep it from serving."""
    reasons: tuple[str, ...]
    """A sentence for each problem; none if all is well."""


@routes.get("/healthz", access=Access.ANYONE, is_rate_limited=False)
async def is_alive(_: web.Request) -> AliveResponse:
    """Answer 200 while the process lives. A standby answers it, too, and it needs no database."""
    return {"status": "ok"}


@routes.get("/readyz", access=Access.ANYONE, refusals={503}, is_rate_limited=False)
async def is_ready(request: web.Request) -> ReadyResponse:
    """Return the state of the service; 503 while it drains, is not the leader, or cannot write."""
    readiness = await request.app[HEALTH].readiness()
    if not readiness.may_serve:
        raise Unavailable(" ".join(readiness.reasons), NOT_READY_RETRY_SECONDS)
    return {"state": readiness.state, "reasons": readiness.reasons}


DEFAULT_LIMIT = 100
READY = "The service is ready."
DRAINING = "The service is shutting down."
ONE_PROBLEM = "The service has a problem."


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


serialize_oldest = Serializer(OldestResponse, OldestActive)


@routes.get("/status/")
async def get_status(request: web.Request) -> StatusResponse:
    """Return the state of the service, and everything that it does in numbers."""
    app = request.app
    readiness, numbers = await app[HEALTH].readiness(), app[STATUS].numbers()
    facts = app[STORAGE].service_facts.last
    oldest = facts and facts.oldest_active
    return {
        "sentence": sentence_of(readiness, numbers.runs),
        "service": _service_response(app, readiness),
        "versions": {
            "python": python_version(),
            "postgresql": facts.postgresql if facts else None,
            "schema": facts.schema_version if facts else None,
        },
        "lead": {
            "is_held": readiness.leads,
            "epoch": facts.epoch if facts else None,
            "standbys": facts.standbys if facts else None,
        },
        "phases": shown_phases(facts.phases) if facts else {},
        "oldest_uncleared_high": serialize_oldest(oldest) if oldest else None,
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


def sentence_of(readiness: Readiness, runs: RunsResponse) -> str:
    """Say how the service is, and how busy."""
    state = READY
    if readiness.state is ServiceState.DRAINING:
        state = DRAINING
    elif readiness.reasons:
        problems = len(readiness.reasons)
        state = ONE_PROBLEM if problems == 1 else f"The service has {problems} problems."
    waiting = ""
    if runs.queued:
        agents_wait = "1 agent waits" if runs.queued == 1 else f"{runs.queued:,} agents wait"
        waiting = f", and {agents_wait} for one"
    verb = "is" if runs.running == 1 else "are"
    return f"{state} {runs.running:,} of {runs.limit:,} run slots {verb} taken{waiting}."


def _service_response(app: web.Application, readiness: Readiness) -> ServiceResponse:
    started_at = app[STARTED_AT]
    return {
        "version": VERSION,
        "started_at": started_at,
        "uptime_seconds": (app[CLOCK].now() - started_at).total_seconds(),
        "state": readiness.state,
        "reasons": readiness.reasons,
    }


@routes.get("/status/supervisors/", query=SupervisorQuery)
async def list_supervisors(request: web.Request) -> list[Snapshot]:
    """List up to `limit` agents by id, fewer if the answer would be longer than 1 MiB."""
    query = read_query(request)
    filters = SnapshotFilters(query["phase"], query["status"], query["organization"], query["name"])
    snapshots = await request.app[STATUS].snapshots(filters, query["limit"])
    return fit(snapshots, MAX_ANSWER_BYTES)


@routes.get("/status/supervisors/{id}/", query=SupervisorAtQuery)
async def get_any_supervisor(request: web.Request) -> Snapshot | PastSupervisorResponse:
    """Explain what an agent of any organization is doing and why, and what wakes it next.

    With `at`, as it was at that moment.
    """
    return await explain_agent(request, path_id(request))


MEDIA_TYPES = ("text/plain", "application/openmetrics-text")
REQUESTED_VERSION = re.compile(r"version=([^;,]*)")
SUPPORTED_VERSIONS = frozenset({"0.0.1", "0.0.4", "1.0.0"})


@routes.get(
    "/metrics", answer=str, media_types=MEDIA_TYPES, authenticate=authenticate_scraper, is_rate_limited=False
)
async def get_metrics(request: web.Request) -> web.Response:
    """Return the metrics in the text format of Prometheus, or in OpenMetrics if `Accept` asks for it."""
    app, accept = request.app, request.headers.get("Accept", "")
    outbox = app[STORAGE].outbox
    oldest = outbox.oldest_pending_at
    scrape = Scrape(
        version=VERSION,
        readiness=await app[HEALTH].readiness(),
        numbers=app[STATUS].numbers(),
        database=app[STORAGE].pool.size(),
        requests=app[REQUEST_COUNTS].snapshot(),
        notifications=dict(app[STORAGE].notifications.created),
        refusals={**app[RATE_LIMITS].refused(), **app[STORAGE].limits.refused()},
        usage=dict(app[STORAGE].usage.stored),
        tool_failures=dict(app[TOOLSET].failures),
        failed_messages=dict(app[TOOLSET].failed_messages),
        outbox=outbox.last_size,
        oldest_delivery_seconds=(app[CLOCK].now() - oldest).total_seconds() if oldest else 0,
        tasks=len(asyncio.all_tasks()),
    )
    # prometheus_client repeats the requested version, and fails on one that does not consist of numbers.
    if not SUPPORTED_VERSIONS.issuperset(REQUESTED_VERSION.findall(accept)):
        accept = ""
    encode, content_type = choose_encoder(accept)
    # Encode in a thread: with every route in use it takes tens of milliseconds.
    return web.Response(body=await asyncio.to_thread(encode, scrape), headers={"Content-Type": content_type})
