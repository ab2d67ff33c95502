"""Runs: start, stop and list them, and explain what an agent's supervisor does."""

from collections.abc import Mapping
from functools import partial
from typing import Any
from uuid import UUID

from aiohttp import web
from asyncpg import Record

from storage.history.runs import RunFilters
from storage.model import Outcome, Receipt, Run
from supervisors.engine.messages import RunReply, RunRequest, StopRequest
from supervisors.engine.snapshot import Snapshot
from web.access.auth import Caller, RunAccess
from web.access.path_access import agent_of_path, path_id, read_by_id, require_agent
from web.app_keys import REGISTRY, STORAGE
from web.errors import NotFound
from web.fields import parse_uuid
from web.idempotency import read_body_once, receipt_of
from web.json import json_response
from web.page_reader import Listing
from web.paging import answer_list, find_owned, period
from web.request.parsing import read_body, read_query
from web.request_room import PLACE
from web.routes import Routes
from web.schemas.runs import (
    AllRunQuery,
    RunAnsweredResponse,
    RunBody,
    RunQuery,
    RunResponse,
    StopAnsweredResponse,
    StopBody,
    WaitQuery,
    serialize_run,
    wake_reasons,
)
from web.schemas.timeline import PastSupervisorResponse
from web.supervisor_answers import QUERY as AT
from web.supervisor_answers import answer_supervisor

routes = Routes()

RUN = RunBody()
STOP = StopBody()
QUERY = RunQuery()
ALL_QUERY = AllRunQuery()
WAIT = WaitQuery()


@routes.post(
    "/api/cloud/agents/{id}/run/", answer=RunAnsweredResponse, body=RUN, idempotent=True, refusals={409}
)
async def run_agent(request: web.Request, caller: Caller) -> web.Response:
    """Request a run. It is stored before it is answered, and survives a restart of the service.

    `status` says what it led to. An archived agent is refused with 409. If the supervisor has too many
    requests waiting, the answer is 503 and the request has no effect.
    """
    agent_id = await agent_of_path(request, caller)
    body = await read_body_once(request, caller, RUN)

    def receipt(reply: RunReply) -> Receipt | None:
        return receipt_of(request, _run_response(reply))

    reply = await request.app[REGISTRY].ask(
        agent_id, RunRequest(**body, receipt=receipt, caller=caller.identity)
    )
    if not reply.had_effect:
        await _insert_receipt(request, agent_id, receipt(reply))
    return _run_response(reply)


def _run_response(reply: RunReply) -> web.Response:
    answer: RunAnsweredResponse = {"status": reply.status, "run": reply.run}
    return json_response(answer)


async def _insert_receipt(request: web.Request, agent_id: UUID, receipt: Receipt | None) -> None:
    """Insert the receipt of a request for which the supervisor wrote nothing."""
    storage = request.app[STORAGE]
    organization_id = await storage.agents.get_organization_id(agent_id) if receipt else None
    if receipt and organization_id:
        await storage.receipts.insert(receipt, organization_id)


@routes.post("/api/cloud/agents/{id}/stop/", answer=StopAnsweredResponse, body=STOP)
async def stop_agent(request: web.Request, caller: Caller) -> web.Response:
    """Stop an agent: end its run, and cancel a pending start, a wait for messages or a retry.

    The run has `runs.stop_grace_seconds` to end. Notifications from before the stop start nothing; the agent
    rests until something new arrives. Stopping an agent that plainly sleeps changes nothing.
    """
    agent_id = await agent_of_path(request, caller)
    body = await read_body(request, STOP)
    reply = await request.app[REGISTRY].ask(agent_id, StopRequest(**body, caller=caller.identity))
    answer: StopAnsweredResponse = {"status": reply}
    return json_response(answer)


@routes.get(
    "/api/cloud/agents/{id}/runs/", answer=list[RunResponse], query=QUERY, run_access=RunAccess.RUNNING
)
async def list_runs(request: web.Request, caller: Caller) -> web.StreamResponse:
    """List the runs of an agent, last started first, 50 of them unless `limit` says otherwise."""
    agent_id = await agent_of_path(request, caller)
    runs, query = request.app[STORAGE].runs, read_query(request, QUERY)

    async def find(run_id: UUID) -> Run | None:
        run = await runs.get(run_id)
        return run if run and run.agent_id == agent_id else None

    fetch = partial(runs.list_rows, _filters(query, (), agent_id))
    return await answer_list(request, query, Listing(fetch, serialize_run.row, find, "started_at"))


@routes.get("/api/cloud/runs/", answer=list[RunResponse], query=ALL_QUERY)
async def list_all_runs(request: web.Request, caller: Caller) -> web.StreamResponse:
    """List the runs of all agents of your organizations, the last started first.

    Filters combine: `outcome=failed&wake_reason=notification&started_after=…`.
    """
    query = read_query(request, ALL_QUERY)
    await require_agent(request, caller, query["agent"])
    runs = request.app[STORAGE].runs
    filters = _filters(query, caller.organizations, query["agent"])
    find = find_owned(caller.organizations, runs.get)
    fetch = partial(runs.list_rows, filters)
    return await answer_list(request, query, Listing(fetch, serialize_run.row, find, "started_at"))


def _filters(
    query: Mapping[str, Any], organization_ids: tuple[UUID, ...], agent_id: UUID | None
) -> RunFilters:
    return RunFilters(
        organization_ids,
        agent_id,
        outcome=query["outcome"] and Outcome(query["outcome"]),
        wake_reasons=wake_reasons(query["wake_reason"]),
        is_active=query["active"],
        started=period(query, "started"),
    )


@routes.get(
    "/api/cloud/agents/{id}/runs/{run_id}/", answer=RunResponse, query=WAIT, run_access=RunAccess.RUNNING
)
async def get_run(request: web.Request, caller: Caller) -> web.Response:
    """Read a run; with `wait`, when it has ended with a complete trace, or after that many seconds."""
    agent_id = path_id(request)
    run = await _load_run(request, caller, agent_id)
    query = read_query(request, WAIT)
    if query["wait"] is not None:
        request[PLACE].leave()
        await request.app[REGISTRY].wait_for_end(agent_id, path_id(request, "run_id"), query["wait"])
        run = await _load_run(request, caller, agent_id)
    return json_response(serialize_run.row(run))


async def _load_run(request: web.Request, caller: Caller, agent_id: UUID) -> Record:
    """Return the row of the agent's run whose id is in the path.

    Raise NotFound for a run of another agent, PermissionDenied for an agent that the caller may not reach. A
    run that is found tells whose agent it is, so the agent is read only for a refusal.
    """
    run_id = parse_uuid(request.match_info["run_id"])
    run = await read_by_id(request, request.app[STORAGE].runs.get.rows, run_id) if run_id else None
    if run is None or run["agent_id"] != agent_id:
        await agent_of_path(request, caller)
        raise NotFound
    caller.require_agent(agent_id, run["organization_id"])
    return run


@routes.get("/api/cloud/agents/{id}/supervisor/", answer=Snapshot | PastSupervisorResponse, query=AT)
async def get_supervisor(request: web.Request, caller: Caller) -> web.Response:
    """Explain what the agent is doing and why, and what wakes it next; with `at`, as it was then."""
    return await answer_supervisor(request, await agent_of_path(request, caller))
