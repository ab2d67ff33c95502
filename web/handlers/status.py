"""The status of the service and of each agent's supervisor, for operators."""

from aiohttp import web

from supervisors.engine.snapshot import Snapshot, SnapshotFilters
from web.access.path_access import path_id
from web.app_keys import CLOCK, HARNESS, HEALTH, STARTED_AT, STATUS, STORAGE
from web.json import MAX_ANSWER_BYTES, fit, json_response
from web.request.parsing import read_query
from web.routes import OperatorRoute
from web.schemas.status import ServiceResponse, StatusResponse, SupervisorQuery
from web.schemas.timeline import PastSupervisorResponse
from web.supervisor_answers import QUERY as AT
from web.supervisor_answers import answer_supervisor
from web.version import VERSION

QUERY = SupervisorQuery()


async def get_status(request: web.Request) -> web.Response:
    """Return the state of the service, and everything that it does in numbers."""
    app = request.app
    overview = app[STATUS].overview()
    answer: StatusResponse = {
        "service": await _service_response(app),
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


async def _service_response(app: web.Application) -> ServiceResponse:
    readiness, started_at = await app[HEALTH].readiness(), app[STARTED_AT]
    return {
        "version": VERSION,
        "started_at": started_at,
        "uptime_seconds": (app[CLOCK].now() - started_at).total_seconds(),
        "state": readiness.state,
        "reasons": readiness.reasons,
    }


async def list_supervisors(request: web.Request) -> web.Response:
    """List up to `limit` agents by id, fewer if the answer would be longer than 1 MiB."""
    query = read_query(request, QUERY)
    filters = SnapshotFilters(query["phase"], query["status"], query["organization"], query["name"])
    snapshots = await request.app[STATUS].snapshots(filters, query["limit"])
    return json_response(fit(snapshots, MAX_ANSWER_BYTES))


async def get_any_supervisor(request: web.Request) -> web.Response:
    """Explain what an agent of any organization is doing and why, and what wakes it next.

    With `at`, as it was at that moment.
    """
    return await answer_supervisor(request, path_id(request))


ROUTES = (
    OperatorRoute("GET", "/status/", get_status, "How the service is", answer=StatusResponse),
    OperatorRoute(
        "GET",
        "/status/supervisors/",
        list_supervisors,
        "Agents and why they do what they do",
        answer=list[Snapshot],
        query=QUERY,
    ),
    OperatorRoute(
        "GET",
        "/status/supervisors/{id}/",
        get_any_supervisor,
        "Why one agent does what it does",
        answer=Snapshot | PastSupervisorResponse,
        query=AT,
    ),
)
