"""An agent's runs: start, stop, the ledger, and its supervisor's own account of itself."""

from uuid import UUID

from aiohttp import web

from storage.model import Receipt, Run
from supervisors.engine.messages import RunReply, RunRequest, StopRequest
from supervisors.engine.snapshot import Snapshot
from web.access.auth import Caller
from web.access.path_access import agent_of_path, path_id
from web.app_keys import REGISTRY, STATUS, STORAGE
from web.errors import NotFound
from web.idempotency import read_body_once, receipt_of
from web.json import json_response
from web.paging import Listing, answer_list
from web.request.parsing import read_body, read_query
from web.routes import for_callers
from web.schemas.runs import (
    RunAnswered,
    RunBody,
    RunQuery,
    RunResponse,
    StopAnswered,
    StopBody,
    WaitQuery,
    serialize_run,
)

RUN = RunBody()
STOP = StopBody()
QUERY = RunQuery()
WAIT = WaitQuery()


async def run_agent(request: web.Request, caller: Caller) -> web.Response:
    agent_id = await agent_of_path(request, caller)
    body = await read_body_once(request, caller, RUN)

    def receipt(reply: RunReply) -> Receipt | None:
        return receipt_of(request, _run_answer(reply))

    reply = await request.app[REGISTRY].ask(agent_id, RunRequest(**body, receipt=receipt))
    if not reply.had_effect:
        await _keep(request, agent_id, receipt(reply))
    return _run_answer(reply)


def _run_answer(reply: RunReply) -> web.Response:
    answer: RunAnswered = {"status": reply.status, "run": reply.run}
    return json_response(answer)


async def _keep(request: web.Request, agent_id: UUID, receipt: Receipt | None) -> None:
    """Store a receipt that the supervisor had nothing to store with."""
    storage = request.app[STORAGE]
    organization_id = await storage.agents.organization_of(agent_id) if receipt else None
    if receipt and organization_id:
        await storage.receipts.insert(receipt, organization_id)


async def stop_agent(request: web.Request, caller: Caller) -> web.Response:
    agent_id = await agent_of_path(request, caller)
    body = await read_body(request, STOP)
    reply = await request.app[REGISTRY].ask(agent_id, StopRequest(**body))
    answer: StopAnswered = {"status": reply}
    return json_response(answer)


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
        show=serialize_run,
    )
    return await answer_list(request, read_query(request, QUERY), listing)


async def get_run(request: web.Request, caller: Caller) -> web.Response:
    """With `wait`, when it has ended and its trace is there, or so many seconds are over."""
    agent_id = await agent_of_path(request, caller)
    run = await _run(request, agent_id)
    query = read_query(request, WAIT)
    if query["wait"] is not None:
        await request.app[REGISTRY].wait_for_end(agent_id, run.id, query["wait"])
        run = await _run(request, agent_id)
    return json_response(serialize_run(run))


async def _run(request: web.Request, agent_id: UUID) -> Run:
    run = await request.app[STORAGE].runs.get(path_id(request, "run_id"))
    if run is None or run.agent_id != agent_id:
        raise NotFound
    return run


async def get_supervisor(request: web.Request, caller: Caller) -> web.Response:
    """Why the agent does what it does."""
    snapshot = await request.app[STATUS].snapshot(await agent_of_path(request, caller))
    if snapshot is None:
        raise NotFound
    return json_response(snapshot)


ROUTES = (
    for_callers(
        "POST",
        "/api/cloud/agents/{id}/run/",
        run_agent,
        "Run an agent",
        answer=RunAnswered,
        body=RUN,
        idempotent=True,
        refusals=frozenset({409}),
    ),
    for_callers(
        "POST", "/api/cloud/agents/{id}/stop/", stop_agent, "Stop an agent", answer=StopAnswered, body=STOP
    ),
    for_callers(
        "GET",
        "/api/cloud/agents/{id}/runs/",
        list_runs,
        "List the runs of an agent",
        answer=list[RunResponse],
        query=QUERY,
    ),
    for_callers(
        "GET",
        "/api/cloud/agents/{id}/runs/{run_id}/",
        get_run,
        "Read a run",
        answer=RunResponse,
        query=WAIT,
    ),
    for_callers(
        "GET",
        "/api/cloud/agents/{id}/supervisor/",
        get_supervisor,
        "Why the agent does what it does",
        answer=Snapshot,
    ),
)
