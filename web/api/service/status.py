"""The service as operators see it: liveness, readiness, and status with nodes and each agent's supervisor."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from platform import python_version
from typing import Literal, TypedDict
from uuid import UUID

from aiohttp import web

from storage.delivery.outbox import OutboxSize
from storage.model import AgentStatus
from storage.postgres.pool import PoolSize
from storage.service_facts import EndedNode, OldestActive
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
from web.access.path_access import path_id
from web.api.supervision.supervisors import explain_agent
from web.api.supervision.timeline import PastSupervisorResponse, SupervisorAtQuery
from web.app_keys import (
    CLOCK,
    HARNESS,
    HEALTH,
    NODES,
    STARTED_AT,
    STATUS,
    STORAGE,
)
from web.errors import Unavailable
from web.fields import Choice, Integer, Line, Uuid
from web.json import MAX_ANSWER_BYTES, Serializer, fit
from web.node_numbers import NodeNumbers, sum_up, sum_up_connections
from web.ports import HarnessStatus, Nodes, Readiness, ServiceState
from web.request.parsing import Body, read_query
from web.routes import Access, Routes
from web.settings import VERSION

routes = Routes(Access.OPERATORS)


NOT_READY_RETRY_SECONDS = 5


class AliveResponse(TypedDict):
    """A sign of life."""

    status: Literal["ok"]
    """Always `ok`."""


class ReadyResponse(TypedDict):
    """The state of a node that can serve."""

    state: ServiceState
    """`ready`, or `degraded` with a problem that does not keep it from serving."""
    reasons: tuple[str, ...]
    """A sentence for each problem; none if all is well."""


@routes.get("/healthz", access=Access.ANYONE, is_rate_limited=False)
async def is_alive(_: web.Request) -> AliveResponse:
    """Answer 200 while the process that answers lives. It needs no database."""
    return {"status": "ok"}


@routes.get("/readyz", access=Access.ANYONE, refusals={503}, is_rate_limited=False)
async def is_ready(request: web.Request) -> ReadyResponse:
    """Return the state of the node that answers.

    503 while it drains, while the database has not confirmed it for 1.5 s, and while it cannot write.
    """
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
    """The node that answers."""

    node: int
    """The number of the node."""
    version: str
    """The version of the service that it is."""
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


class NodeResponse(TypedDict):
    """A process of the service. What it does was told at its last beat, at most a second ago."""

    id: int
    """The number of the node. A process that starts again gets another one."""
    name: str
    """Its name: `node.name` or that of its machine, of several workers with `/1`, `/2` and so on."""
    version: str
    """The version of the service that it is."""
    state: str
    """`alive`; `leaving`: it begins nothing and waits for its runs; `condemned`: others have found it dead,
    and end its connections to the database."""
    roles: Sequence[str]
    """What it does: `http`, `runs`, `chores`."""
    url: str
    """The address at which this very node answers; blank before it was told."""
    agents: int
    """How many agents it attends, counted at most one scan interval ago: those that run, hold, wait for a run
    slot or a retry."""
    runs: int
    """How many run slots are taken."""
    free_slots: int
    """How many runs it can start at once."""
    queued: int
    """How many starts wait for one of its run slots."""
    lag_ms: float | None
    """The 99th percentile of how late its event loop wakes up; null before the first measurement."""
    joined_at: datetime
    """When it joined."""
    confirmed_seconds: float
    """Seconds since the node that answers has last seen it beat, twice a second if all is well."""


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
    """The node that answers, and its state."""
    versions: VersionsResponse
    """What the service is made of."""
    nodes: Sequence[NodeResponse]
    """The nodes that live, by number. Numbers without a node are sums over them, of lateness the worst."""
    ended_nodes: Sequence[EndedNode]
    """The nodes that have ended within a day, in order or found dead, the last one first, at most 100."""
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
    """How late the event loops wake up: the worst node's."""
    database: PoolSize
    """The connections to the database."""
    outbox: OutboxSize
    """The webhooks that are pending or were given up."""


serialize_oldest = Serializer(OldestResponse, OldestActive)


@routes.get("/status/")
async def get_status(request: web.Request) -> StatusResponse:
    """Return the state of the service, and everything that it does in numbers."""
    app = request.app
    readiness, own, numbers = await app[HEALTH].readiness(), app[HEALTH].numbers(), app[STATUS].numbers()
    nodes = numbers_by_node(app[NODES], own)
    if len(nodes) > 1:
        numbers = sum_up(numbers, list(nodes.values()))
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
        "nodes": list(_node_responses(app[NODES], nodes, facts.attended if facts else {})),
        "ended_nodes": facts.ended_nodes if facts else (),
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
        "database": sum_up_connections(list(nodes.values())),
        "outbox": app[STORAGE].outbox.last_size,
    }


def numbers_by_node(nodes: Nodes, own: NodeNumbers) -> Mapping[int, NodeNumbers]:
    """Return what each living node does: this one now, the others at their last beats."""
    others = {node.id: NodeNumbers.read(node.facts) for node in nodes.nodes.values()}
    return others | {nodes.node_id: own}


def _node_responses(
    nodes: Nodes, numbers: Mapping[int, NodeNumbers], attended: Mapping[int, int]
) -> Iterator[NodeResponse]:
    for node in sorted(nodes.nodes.values(), key=attrgetter("id")):
        own = numbers[node.id]
        yield {
            "id": node.id,
            "name": node.name,
            "version": node.version,
            "state": node.state,
            "roles": node.roles,
            "url": own.url,
            "agents": attended.get(node.id, 0),
            "runs": own.runs.running,
            "free_slots": own.free_slots,
            "queued": own.runs.queued,
            "lag_ms": own.lag_ms.p99,
            "joined_at": node.joined_at,
            "confirmed_seconds": round(nodes.seconds_since_beat(node.id), 3),
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
        "node": app[NODES].node_id,
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
    return await explain_agent(request, path_id(request), read_query(request))
