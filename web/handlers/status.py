"""The status of the service and of each agent's supervisor, for operators."""

from aiohttp import web

from supervisors.engine.snapshot import RunsResponse, Snapshot, SnapshotFilters
from supervisors.overview.phases import shown_phases
from supervisors.overview.sentences import service_sentence
from web.access.path_access import path_id
from web.app_keys import CLOCK, HARNESS, HEALTH, STARTED_AT, STATUS, STORAGE
from web.json import MAX_ANSWER_BYTES, fit, json_response
from web.ports import Readiness, ServiceState
from web.request.parsing import read_query
from web.routes import Access, Routes
from web.schemas.status import (
    ServiceResponse,
    StatusResponse,
    SupervisorQuery,
    serialize_lead,
    serialize_oldest,
    serialize_versions,
)
from web.schemas.timeline import PastSupervisorResponse
from web.supervisor_answers import QUERY as AT
from web.supervisor_answers import answer_supervisor
from web.version import VERSION

routes = Routes(Access.OPERATORS)

QUERY = SupervisorQuery()


@routes.get("/status/", answer=StatusResponse)
async def get_status(request: web.Request) -> web.Response:
    """Return the state of the service, and everything that it does in numbers."""
    app = request.app
    readiness, overview = await app[HEALTH].readiness(), app[STATUS].overview()
    facts = app[STORAGE].service_facts.last
    answer: StatusResponse = {
        "sentence": _sentence(readiness, overview.runs),
        "service": _service_response(app, readiness),
        "versions": serialize_versions(facts),
        "lead": serialize_lead(facts, is_held=readiness.leads),
        "phases": shown_phases(facts.phases) if facts else {},
        "oldest_uncleared_high": serialize_oldest(facts),
        "failing_webhooks": facts.failing_webhooks if facts else 0,
        "forgotten": [{"agent": one, "since": since} for one, since in app[HEALTH].forgotten().items()],
        "harness": app[HARNESS](),
        "supervisors": overview.supervisors,
        "quarantined": overview.quarantined,
        "agents": overview.agents,
        "runs": overview.runs,
        "timers": overview.timers,
        "oldest_uncleared_high_seconds": overview.oldest_uncleared_high_seconds,
        "loop_lag_ms": overview.loop_lag_ms,
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
