"""Runs: start, stop and list them."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Any, NotRequired, TypedDict
from uuid import UUID

from aiohttp import web
from asyncpg import Record

from storage.channels.messages import Channel, MessageStatus
from storage.history.runs import RunFilters
from storage.model import Outcome, Receipt, Run, Source
from supervisors.engine.messages import RunAnswer, RunReply, RunRequest, StopReply, StopRequest
from supervisors.policy.decisions import WakeReason
from web.access.auth import Caller, RunAccess
from web.access.path_access import agent_of_path, load, path_id, require_agent
from web.app_keys import CLOCK, REGISTRY, STORAGE
from web.errors import NotFound
from web.fields import Boolean, Integer, OneOf, Text, UtcDatetime, Uuid
from web.idempotency import read_body_once, receipt_of
from web.json import Serializer
from web.paging import Listing, PageQuery, answer_list, answer_owned, period
from web.request.parsing import Body, read_body, read_query
from web.request_room import PLACE
from web.routes import Routes

DEFAULT_LIMIT = 50
MAX_REASON_LENGTH = 1000
POLL_SECONDS = 0.25  # between two looks at a run of another node

NOTIFICATION = "notification"  # stands for all wake reasons of the form `notification:<source>`
NOTIFICATION_REASONS = tuple(f"{NOTIFICATION}:{source}" for source in Source)


class RunBody(Body):
    """How to start a run. All fields may be left out."""

    wakeup = Boolean(load_default=True)
    """true interrupts a sleep, a wait for messages or a backoff; false leaves an agent asleep whose
    `sleep_until` lies ahead."""


class StopBody(Body):
    """How to stop. All fields may be left out."""

    force = Boolean(load_default=False)
    """true cancels the run at once, without the time that it otherwise has to end by itself."""
    reason = Text(load_default="", max_length=MAX_REASON_LENGTH)
    """Why it is stopped, for people. The run and its trace keep it, and `why` quotes it; "": no reason."""


class RunQuery(PageQuery):
    limit = Integer(min_value=1, max_value=1000, load_default=DEFAULT_LIMIT)
    """The maximum number of runs; a `Link` header leads to the next page while there is one."""
    outcome = OneOf(tuple(Outcome), load_default=None)
    """Only runs that ended so. A run that is under way has no outcome yet."""
    wake_reason = OneOf((*WakeReason, NOTIFICATION, *NOTIFICATION_REASONS), load_default=None)
    """Only runs started for this reason. `notification` stands for notifications of any source,
    `notification:sms` for those of one."""
    active = Boolean(load_default=None)
    """true: only runs that are under way. false: only runs that have ended."""
    needs_person = Boolean(load_default=None)
    """true: only runs that need a person. false: only others."""
    has_failed_calls = Boolean(load_default=None)
    """true: only runs in which a call of a tool failed, but for `sleep`. false: only others."""
    started_after = UtcDatetime(load_default=None)
    """Only runs started at this time or later. Without an offset it is UTC."""
    started_before = UtcDatetime(load_default=None)
    """Only runs started before this time. Without an offset it is UTC."""


class AllRunQuery(RunQuery):
    agent = Uuid(load_default=None)
    """Only runs of this agent."""


def wake_reasons(value: str | None) -> tuple[str, ...]:
    """Return the wake reasons that a filter stands for; no filter stands for none of them."""
    if value == NOTIFICATION:
        return NOTIFICATION_REASONS
    return () if value is None else (value,)


class WaitQuery(Body):
    """How long to wait for the end of a run."""

    wait = Integer(min_value=1, max_value=60, load_default=None)
    """How many seconds to wait for the end of the run; left out: answer at once."""


class RunAnsweredResponse(TypedDict):
    """The answer to a run request."""

    status: RunAnswer
    """What the request has led to."""
    run: UUID | None
    """The run that was started, or is already active; null if there is none, also while it is queued."""


class StopAnsweredResponse(TypedDict):
    """The answer to a stop."""

    status: StopReply
    """What the stop has led to."""


class SentMessageResponse(TypedDict):
    """A message that a run sent."""

    contact: UUID | None
    """The contact that it went to; null if the contact was deleted before the run ended."""
    name: str | None
    """The first 100 characters of the contact's name at the end of the run, or of the address that it went to
    if the contact has no name; null as for `contact`."""
    channel: Channel
    """The channel that it went by."""
    status: MessageStatus
    """Its status at the end of the run."""


class ToolUseResponse(TypedDict):
    """The calls of one tool in a run."""

    name: str
    """The name that the tool was called by, at most 100 characters."""
    calls: int
    """How many calls there were."""
    errors: int
    """How many of the calls failed."""
    last_error: str
    """The error of the last call that failed, at most 200 characters; "" if none failed."""
    unsolved: NotRequired[bool]
    """true: its last call failed, and no later turn of the run changed anything. Else left out."""


class UnclearedResponse(TypedDict):
    """A notification that a run left uncleared."""

    id: UUID
    """The notification, which may have been cleared or deleted since."""
    title: str
    """The first 100 characters of its title at the end of the run."""


class JournalResponse(TypedDict):
    """What a run did, written by the service from its own records at the end of the run.

    For process harnesses and interrupted runs these are its trace, its usage and its messages.
    """

    woken_by: Sequence[str]
    """The titles of the notifications that were active at its start, the first 10, 100 characters of each."""
    cleared: Sequence[str]
    """The titles of the notifications that it cleared, the first 10, 100 characters of each."""
    cleared_count: int
    """How many notifications it cleared; larger numbers are shown as 1,000."""
    uncleared: NotRequired[Sequence[UnclearedResponse]]
    """The first 10 notifications of high priority that were active at its end, longest active first. Left out
    for runs from before this was recorded."""
    uncleared_count: NotRequired[int]
    """How many there were; larger numbers are shown as 1,000. Left out as `uncleared` is."""
    sent: Sequence[SentMessageResponse]
    """The first 10 messages that it wrote to contacts, also those that failed."""
    sent_count: int
    """How many messages it sent to contacts."""
    failed_count: NotRequired[int]
    """How many of its messages failed. Left out for runs from before this was recorded: their `sent_count`
    has those, too."""
    unanswered: NotRequired[Sequence[UUID]]
    """The first 10 contacts whose messages it cleared without an answer, if its text was sent to nobody, or
    if it broke off before it sent one. Left out for runs from before this was recorded."""
    tools: Sequence[ToolUseResponse]
    """The tools that it called, at most 20, most calls first."""
    cost_usd: float
    """What its model calls cost, without those of unknown cost."""
    unpriced_calls: NotRequired[int]
    """How many of its model calls are of unknown cost. Left out for runs from before this was recorded."""


class PromptOwner(StrEnum):
    """Whose system prompt a run was told."""

    AGENT = "agent"
    """The agent's own."""
    TEMPLATE = "template"
    """That of the agent's template, because the agent has none."""


class RunPromptResponse(TypedDict):
    """The version of a system prompt."""

    of: PromptOwner
    """Whose prompt it is."""
    id: UUID
    """The agent or the template; it may have been deleted since."""
    version: int
    """The number of the version, as `prompts/` of the agent or the template lists it."""


class RunResponse(TypedDict):
    """A run: one wake to sleep of an agent."""

    id: UUID
    """Chosen by the service."""
    agent: UUID
    """The agent that ran."""
    trace: UUID
    """The trace of the run, which has the same id."""
    wake_reason: str
    """Why it started: `run_requested`, `notification:<source>`, `reminder`, `sleep_elapsed`,
    `restart_recovery`, `retry_after_failure` or `uncleared_notifications`."""
    notifications: Sequence[UUID]
    """The notifications that were active at its start, longest active first, at most 1,000."""
    notification_count: int
    """How many notifications were active at its start."""
    interrupted_sleep_until: datetime | None
    """The end of the sleep that its start cut short; null if there was none."""
    started_at: datetime
    """When it started."""
    ended_at: datetime | None
    """When it ended; null while it is active."""
    turns: int
    """How many turns it had: model calls with the tool calls that they asked for. 0 for a process harness."""
    outcome: Outcome | None
    """How it ended; null while it is active."""
    error: str
    """What went wrong or ended it early, such as `stopped`; "" if nothing did."""
    stop_reason: str
    """The reason given with the stop that ended it; "" without one."""
    output: str
    """The text of the model's final answer, cut with a note if it has more than 20,000 characters; "" if
    there is none, as for a process harness."""
    journal: JournalResponse | None
    """What it did; null while it is active, and for runs from before there were journals."""
    failed_calls: int
    """How many calls of tools failed, but for `sleep`; 0 while it is active."""
    needs_person: bool
    """Whether a tool failed and nothing was changed afterwards, unless the agent tries again with all that
    woke it; or `unanswered` in its journal names contacts, until each of them got a message. Until a
    person dismisses it; a failed message needs a person by itself."""
    max_sleep_until: datetime | None
    """The latest moment that it may let the agent sleep until; null: no limit."""
    prompt: RunPromptResponse | None
    """The system prompt that it was told, as it was at the start of the run; null if there was none, and for
    runs from before this was recorded."""


serialize_run = Serializer(RunResponse, Run, trace="id")
_serialize_reply = Serializer(RunAnsweredResponse, RunReply)

routes = Routes()


@routes.post("/api/cloud/agents/{id}/run/", body=RunBody, idempotent=True, refusals={409})
async def run_agent(request: web.Request, caller: Caller) -> RunAnsweredResponse:
    """Request a run. It is stored before it is answered, and survives a restart of the service.

    `status` says what it led to. An archived agent is refused with 409. If the supervisor has too many
    requests waiting, the answer is 503 and the request has no effect.
    """
    agent_id = await agent_of_path(request, caller)
    body = await read_body_once(request, caller)

    def receipt(reply: RunReply) -> Receipt | None:
        return receipt_of(request, _serialize_reply(reply))

    reply = await request.app[REGISTRY].ask(
        agent_id, RunRequest(**body, receipt=receipt, caller=caller.identity)
    )
    unwritten = None if reply.had_effect else receipt(reply)
    if unwritten is not None:
        storage = request.app[STORAGE]
        organization_id = await storage.agents.get_organization_id(agent_id)
        if organization_id is not None:
            await storage.receipts.insert(unwritten, organization_id)
    return _serialize_reply(reply)


@routes.post("/api/cloud/agents/{id}/stop/", body=StopBody)
async def stop_agent(request: web.Request, caller: Caller) -> StopAnsweredResponse:
    """Stop an agent: end its run, and cancel a pending start, a wait for messages or a retry.

    The run has `runs.stop_grace_seconds` to end. Notifications from before the stop start nothing; the agent
    rests until something new arrives. Stopping an agent that plainly sleeps changes nothing.
    """
    agent_id = await agent_of_path(request, caller)
    body = await read_body(request)
    reply = await request.app[REGISTRY].ask(agent_id, StopRequest(**body, caller=caller.identity))
    return {"status": reply}


@routes.get(
    "/api/cloud/agents/{id}/runs/", answer=list[RunResponse], query=RunQuery, run_access=RunAccess.RUNNING
)
async def list_runs(request: web.Request, caller: Caller) -> web.StreamResponse:
    """List the runs of an agent, last started first, 50 of them unless `limit` says otherwise."""
    agent_id = await agent_of_path(request, caller)
    runs, query = request.app[STORAGE].runs, read_query(request)
    fetch = partial(runs.list_rows, _filters(query, (), agent_id))
    listing = Listing(fetch, serialize_run.row, runs.get, lambda run: run.agent_id == agent_id, "started_at")
    return await answer_list(request, query, listing)


@routes.get("/api/cloud/runs/", answer=list[RunResponse], query=AllRunQuery)
async def list_all_runs(request: web.Request, caller: Caller) -> web.StreamResponse:
    """List the runs of all agents of your organizations, the last started first.

    Filters combine: `outcome=failed&wake_reason=notification&started_after=…`.
    """
    query = read_query(request)
    await require_agent(request, caller, query["agent"])
    runs = request.app[STORAGE].runs
    filters = _filters(query, caller.organizations, query["agent"])
    fetch = partial(runs.list_rows, filters)
    owners = caller.organizations
    return await answer_owned(request, query, owners, runs.get, fetch, serialize_run.row, "started_at")


def _filters(
    query: Mapping[str, Any], organization_ids: tuple[UUID, ...], agent_id: UUID | None
) -> RunFilters:
    return RunFilters(
        organization_ids,
        agent_id,
        outcome=query["outcome"] and Outcome(query["outcome"]),
        wake_reasons=wake_reasons(query["wake_reason"]),
        is_active=query["active"],
        needs_person=query["needs_person"],
        has_failed_calls=query["has_failed_calls"],
        started=period(query, "started"),
    )


@routes.get("/api/cloud/agents/{id}/runs/{run_id}/", query=WaitQuery, run_access=RunAccess.RUNNING)
async def get_run(request: web.Request, caller: Caller) -> RunResponse:
    """Read a run; with `wait`, when it has ended with a complete trace, or after that many seconds."""
    agent_id = path_id(request)
    run = await _load_run(request, caller, agent_id)
    query = read_query(request)
    if query["wait"] is not None:
        read = partial(_load_run, request, caller, agent_id)
        run = await wait_for_end(request, run, query["wait"], read)
    return serialize_run.row(run)


async def wait_for_end(
    request: web.Request, run: Record, seconds: float, read: Callable[[], Awaitable[Record]]
) -> Record:
    """Return the run when it has ended, or after `seconds`, during which the request takes no room.

    Of a run at another node the row is polled, by `read`.
    """
    request[PLACE].leave()
    clock = request.app[CLOCK]
    deadline = clock.monotonic() + seconds
    await request.app[REGISTRY].wait_for_end(run["agent_id"], run["id"], seconds)
    while True:
        run = await read()
        remaining = deadline - clock.monotonic()
        if run["ended_at"] is not None or remaining <= 0:
            return run
        await clock.sleep(min(POLL_SECONDS, remaining))


async def _load_run(request: web.Request, caller: Caller, agent_id: UUID) -> Record:
    """Return the row of the agent's run whose id is in the path.

    Raise NotFound for a run of another agent, PermissionDenied for an agent that the caller may not reach. A
    run that is found tells whose agent it is, so the agent is read only for a refusal.
    """
    with suppress(NotFound):
        run = await load(request, request.app[STORAGE].runs.get.rows, "run_id")
        if run["agent_id"] == agent_id:
            caller.require_agent(agent_id, run["organization_id"])
            return run
    await agent_of_path(request, caller)
    raise NotFound
