"""An agent's runs: start, stop, the ledger, and its supervisor's own account of itself."""

from uuid import UUID

from aiohttp import web

from storage.model import Run
from supervisors.messages import RunReply, RunRequest, StopReply, StopRequest
from web.auth import Caller
from web.errors import NotFound
from web.json import json_response
from web.keys import REGISTRY, STORAGE
from web.paging import Listing, answer_list
from web.parsing import read_body, read_query
from web.reach import agent_of_path
from web.routes import for_callers, path_id
from web.schemas.runs import RunBody, RunQuery, StopBody, show_run

RUN = RunBody()
STOP = StopBody()
QUERY = RunQuery()


async def run_agent(request: web.Request, caller: Caller) -> web.Response:
    agent_id = await agent_of_path(request, caller)
    body = await read_body(request, RUN)
    reply: RunReply = await request.app[REGISTRY].ask(agent_id, RunRequest(**body))
    return json_response({"status": reply.status, "run": reply.run})


async def stop_agent(request: web.Request, caller: Caller) -> web.Response:
    agent_id = await agent_of_path(request, caller)
    body = await read_body(request, STOP)
    reply: StopReply = await request.app[REGISTRY].ask(agent_id, StopRequest(**body))
    return json_response({"status": reply})


async def list_runs(request: web.Request, caller: Caller) -> web.StreamResponse:
    agent_id = await agent_of_path(request, caller)
    runs = request.app[STORAGE].runs

    async def find(run_id: UUID) -> Run | None:
        last = await runs.get(run_id)
        return last if last and last.agent_id == agent_id else None

    listing = Listing(
        fetch=lambda page: runs.page(agent_id, page),
        find=find,
        cursor=lambda last: (last.started_at, last.id),
        show=show_run,
    )
    return await answer_list(request, read_query(request, QUERY), listing)


async def get_run(request: web.Request, caller: Caller) -> web.Response:
    agent_id = await agent_of_path(request, caller)
    run = await request.app[STORAGE].runs.get(path_id(request, "run_id"))
    if run is None or run.agent_id != agent_id:
        raise NotFound
    return json_response(show_run(run))


async def get_supervisor(request: web.Request, caller: Caller) -> web.Response:
    """Why the agent does what it does."""
    snapshot = await request.app[REGISTRY].snapshot(await agent_of_path(request, caller))
    if snapshot is None:
        raise NotFound
    return json_response(snapshot)


ROUTES = (
    for_callers("POST", "/api/cloud/agents/{id}/run/", run_agent),
    for_callers("POST", "/api/cloud/agents/{id}/stop/", stop_agent),
    for_callers("GET", "/api/cloud/agents/{id}/runs/", list_runs),
    for_callers("GET", "/api/cloud/agents/{id}/runs/{run_id}/", get_run),
    for_callers("GET", "/api/cloud/agents/{id}/supervisor/", get_supervisor),
)
