"""The tools for a person's assistant: each does what a route does, with the rights of the user or the key."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from aiohttp import web
from asyncpg import Record

from storage.agents.filters import AgentSort, SortedPage
from storage.history.runs import RunFilters
from storage.ids import new_id
from storage.model import Agent, Priority, Source
from storage.notifications.notifications import NewNotification
from storage.parked_calls import CallState
from storage.postgres.paging import Page
from supervisors.engine.messages import RunReply, RunRequest
from supervisors.policy.phases import ShownPhase
from web.access.auth import Caller
from web.access.path_access import require_agent, turn_to_read
from web.access.references import read_agent_filters
from web.api.agents.agents import AgentFilterQuery
from web.api.agents.runs import serialize_run, wait_for_end
from web.api.agents.usage import DailyUsageQuery, sum_daily_usage
from web.api.channels.notifications import insert_notification, serialize_notification
from web.api.supervision.approvals import DecisionBody, decide_call, serialize_approval
from web.api.supervision.schedules import serialize_schedule
from web.api.supervision.supervisors import explain_agent, explain_rows, read_overview
from web.api.supervision.timeline import SupervisorAtQuery, TimelineQuery, read_timeline
from web.api.tracing.spans import serialize_span
from web.api.tracing.traces import serialize_trace
from web.app_keys import CLOCK, REGISTRY, STORAGE
from web.errors import require_found
from web.fields import MAX_SIDE_TEXT, Boolean, Choice, Integer, Line, Text, Uuid
from web.request.parsing import Body

MAX_WAIT_SECONDS = 45  # clients give up after 60
MAX_RESULT_BYTES = 100_000  # as much as a model can read at once
MAX_ITEMS = 50
MAX_SPANS = 200  # of a trace

Json = dict[str, Any]
Use = Callable[[web.Request, Caller, Json], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class ServiceTool:
    """A function of checked arguments, described by its docstring and by those of the arguments."""

    use: Use
    arguments: Body
    is_read: bool


TOOLS: dict[str, ServiceTool] = {}  # by name, in the order of this file


def tool(arguments: type[Body] = Body, *, is_read: bool = True) -> Callable[[Use], Use]:
    """Return a decorator that offers a function as the tool of its name."""

    def add(use: Use) -> Use:
        TOOLS[use.__name__] = ServiceTool(use, arguments(), is_read)
        return use

    return add


class AgentArguments(Body):
    agent = Uuid(required=True)
    """The id of the agent."""


class OfAgentArguments(Body):
    agent = Uuid(load_default=None)
    """Only those of this agent. Left out: of all agents."""
    limit = Integer(min_value=1, max_value=MAX_ITEMS, load_default=10)
    """The maximum number of them."""


class WaitArguments(Body):
    wait = Integer(min_value=0, max_value=MAX_WAIT_SECONDS, load_default=MAX_WAIT_SECONDS)
    """How many seconds to wait for the end of the run."""


class ListAgentsArguments(AgentFilterQuery):
    phase = Choice(ShownPhase, load_default=None)
    """Only agents in this phase; `archived` implies `include_archived`."""
    limit = Integer(min_value=1, max_value=MAX_ITEMS, load_default=20)
    """The maximum number of agents."""


class WhyArguments(AgentArguments, SupervisorAtQuery):
    pass


class TimelineArguments(AgentArguments, TimelineQuery):
    pass


class NotifyArguments(AgentArguments):
    title = Line(required=True, blank=False, max_length=MAX_SIDE_TEXT)
    """What it is about, in a line."""
    body = Text(load_default="")
    """All that the agent needs to know."""
    priority = Choice(Priority, load_default=Priority.HIGH)
    """A high notification wakes the agent; a low one waits until something else does."""


class RunAgentArguments(AgentArguments, WaitArguments):
    pass


class GetRunArguments(WaitArguments):
    run = Uuid(required=True)
    """The id of the run."""


class ListRunsArguments(OfAgentArguments):
    active = Boolean(load_default=None)
    """true: only runs that are under way. false: only runs that have ended."""
    needs_person = Boolean(load_default=None)
    """true: only runs that need a person. false: only others."""


class GetTraceArguments(Body):
    trace = Uuid(required=True)
    """The id of the trace; a run and its trace have one id."""


class ListSchedulesArguments(OfAgentArguments):
    paused = Boolean(load_default=None)
    """true: only paused ones. false: only others."""


class ListApprovalsArguments(OfAgentArguments):
    state = Choice(CallState, load_default=CallState.PENDING)
    """Only those in this state. `pending`: those that wait for a person."""


class DecideApprovalArguments(DecisionBody):
    approval = Uuid(required=True)
    """The id of the call or question."""
    note = Text(load_default="", max_length=MAX_SIDE_TEXT)
    """What the agent should know about the decision."""


@tool()
async def overview(request: web.Request, caller: Caller, _: Json) -> Any:
    """Show what the agents do, what needs a person, and which of them wake in the next 24 hours."""
    return await read_overview(request, caller, None)


@tool(ListAgentsArguments)
async def list_agents(request: web.Request, caller: Caller, arguments: Json) -> Any:
    """List agents, newest first, with what each does, why, what wakes it next, and what it costs."""
    filters = await read_agent_filters(request, caller, arguments)
    page = SortedPage(request.app[CLOCK].now(), None, arguments["limit"])
    async with turn_to_read(request):
        rows = await request.app[STORAGE].sorted_agents.list_page(filters, AgentSort.NEWEST, page)
        return await explain_rows(request, filters, rows)


@tool(WhyArguments)
async def why(request: web.Request, caller: Caller, arguments: Json) -> Any:
    """Explain what an agent is doing and why, and what wakes it next; with `at`, as it was at that moment."""
    agent = await _load_agent(request, caller, arguments)
    return await explain_agent(request, agent.id, arguments)


@tool(TimelineArguments)
async def timeline(request: web.Request, caller: Caller, arguments: Json) -> Any:
    """Show what happened to an agent in a period, by default the last 24 hours, and what lies ahead."""
    return await read_timeline(request, await _load_agent(request, caller, arguments), arguments)


@tool(NotifyArguments, is_read=False)
async def notify(request: web.Request, caller: Caller, arguments: Json) -> Any:
    """Put a notification into the queue of an agent: give it work, or tell it something."""
    agent_id, title, body = (arguments[name] for name in ("agent", "title", "body"))
    priority, now = arguments["priority"], request.app[CLOCK].now()
    new = NewNotification(new_id(), agent_id, Source.API, "", title, body, priority, now, None)
    await insert_notification(request, caller, new)
    return serialize_notification(new)


@tool(RunAgentArguments, is_read=False)
async def run_agent(request: web.Request, caller: Caller, arguments: Json) -> Any:
    """Start a run of an agent now, or join the one that is active, and return it when it has ended.

    If it takes longer than `wait`, ask for it by get_run. Use notify to give the agent something to do.
    """
    reply = await start_run(request, caller, arguments)
    if reply.run is None:
        return {"status": reply.status, "run": None}
    return await get_run(request, caller, {"run": reply.run, "wait": arguments["wait"]})


@tool(GetRunArguments)
async def get_run(request: web.Request, caller: Caller, arguments: Json) -> Any:
    """Read a run when it has ended, or after `wait` seconds: its outcome, final answer and journal."""
    return serialize_run.row(await await_run(request, caller, arguments["run"], arguments["wait"]))


@tool(ListRunsArguments)
async def list_runs(request: web.Request, caller: Caller, arguments: Json) -> Any:
    """List runs, the last started first, each with its outcome, its final answer and its journal."""
    agent_id, active, needs_person = (arguments[name] for name in ("agent", "active", "needs_person"))
    filters = RunFilters(caller.organizations, agent_id, is_active=active, needs_person=needs_person)
    fetch = partial(request.app[STORAGE].runs.list_rows, filters)
    return await _list(request, caller, arguments, fetch, serialize_run.row)


@tool(GetTraceArguments)
async def get_trace(request: web.Request, caller: Caller, arguments: Json) -> Any:
    """Read a trace with its first spans: the calls of models and tools, how long each took, what failed."""
    traces = request.app[STORAGE].traces
    trace = require_found(await traces.get(arguments["trace"]))
    caller.require(trace.organization_id)
    spans = await traces.list_spans(trace.id, limit=MAX_SPANS)
    total = await traces.count_spans(trace.id)
    return {**serialize_trace(trace), "spans": list(map(serialize_span, spans)), "total_spans": total}


@tool(DailyUsageQuery)
async def usage(request: web.Request, caller: Caller, arguments: Json) -> Any:
    """Sum up the model calls of agents by UTC day and model: their tokens and what they cost."""
    return await sum_daily_usage(request, caller, arguments)


@tool(ListSchedulesArguments)
async def list_schedules(request: web.Request, caller: Caller, arguments: Json) -> Any:
    """List the schedules that wake agents, in words, with the next moment of each."""
    only = {name: arguments[name] for name in ("agent", "paused")}
    fetch = partial(request.app[STORAGE].schedules.list_page, caller.organizations, **only)
    return await _list(request, caller, arguments, fetch, serialize_schedule)


@tool(ListApprovalsArguments)
async def list_approvals(request: web.Request, caller: Caller, arguments: Json) -> Any:
    """List the calls of agents that wait for a person's approval, and their questions, newest first."""
    only = {name: arguments[name] for name in ("agent", "state")}
    fetch = partial(request.app[STORAGE].parked_calls.list_page, caller.organizations, **only)
    return await _list(request, caller, arguments, fetch, serialize_approval)


@tool(DecideApprovalArguments, is_read=False)
async def decide_approval(request: web.Request, caller: Caller, arguments: Json) -> Any:
    """Approve or deny a call that waits, or answer a question, as the person whom you assist has decided.

    Show that person the exact arguments first. The service makes an approved call, and wakes the agent.
    """
    call = require_found(await request.app[STORAGE].parked_calls.get(arguments.pop("approval")))
    return serialize_approval(await decide_call(request.app, caller, call, **arguments))


async def _list(
    request: web.Request,
    caller: Caller,
    arguments: Json,
    fetch: Callable[[Page], Awaitable[Iterable[Any]]],
    serialize: Callable[[Any], Any],
) -> list[Any]:
    await require_agent(request, caller, arguments["agent"])
    async with turn_to_read(request):
        found = await fetch(Page(limit=arguments["limit"], max_bytes=MAX_RESULT_BYTES))
    return list(map(serialize, found))


async def _load_agent(request: web.Request, caller: Caller, arguments: Json) -> Agent:
    agent = require_found(await request.app[STORAGE].agents.get(arguments["agent"]))
    caller.require(agent.organization_id)
    return agent


async def start_run(request: web.Request, caller: Caller, arguments: Json) -> RunReply:
    agent = await _load_agent(request, caller, arguments)
    return await request.app[REGISTRY].ask(agent.id, RunRequest(caller=caller.identity))


async def load_run(request: web.Request, caller: Caller, run_id: UUID) -> Record:
    """Return the row of a run. Raise NotFound, or PermissionDenied for one of another organization."""
    run = require_found(await request.app[STORAGE].runs.get.rows.get_alone(run_id))
    caller.require(run["organization_id"])
    return run


async def await_run(request: web.Request, caller: Caller, run_id: UUID, seconds: float) -> Record:
    """Return the row of a run when it has ended, or after `seconds`. Raise as `load_run` does."""
    read = partial(load_run, request, caller, run_id)
    run = await read()
    if run["ended_at"] is not None or not seconds:
        return run
    return await wait_for_end(request, run, seconds, read)
