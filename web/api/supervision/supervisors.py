"""Agents with what they do and why: one of them now or in the past, a sorted list, and an overview."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any, TypedDict
from uuid import UUID
from zoneinfo import ZoneInfo

import orjson
from aiohttp import web
from marshmallow import ValidationError
from marshmallow.fields import Field

from storage.agents.attention import AttentionKind, FailedDelivery, FailedMessage, FailedRun
from storage.agents.filters import AgentFilters, AgentRow, AgentSort, Position, SortedPage, Value
from storage.agents.overviews import AskingAgent, FailingWebhook, ScheduleWithoutZone, TroubledAgent
from storage.model import AgentStatus, Purpose
from supervisors.engine.snapshot import AgentSummary, NextWake, Snapshot
from supervisors.organization_overview import (
    AgendaItem,
    AgendaKind,
    AttentionItem,
    OverviewReader,
)
from supervisors.policy.limits import delay_of
from supervisors.policy.parked_calls import why_pending
from supervisors.policy.phases import Phase, ShownPhase
from supervisors.policy.schedules import comes_at, soonest, why_wakes, why_wakes_later
from web.access.auth import Caller
from web.access.path_access import agent_of_path, require_organization
from web.access.references import read_agent_filters
from web.api.agents.agents import AgentFilterQuery
from web.api.supervision.timeline import PastSupervisorResponse, SupervisorAtQuery, serialize_past
from web.app_keys import CLOCK, HEALTH, ROOM, STATUS, STORAGE, TIMELINES
from web.errors import Invalid, require_found
from web.fields import MAX_MONEY, Choice, Integer, Line, ListOf, Money, Text, UtcDatetime, Uuid
from web.json import Serializer, json_response
from web.paging import TOTAL_HEADER, next_link
from web.request.parsing import Body, localize, read_query
from web.routes import Routes

DEFAULT_LIMIT = 100
MAX_LIMIT = 200
MAX_AGENTS = 100
MAX_POSITION = 4000  # characters: a long name, twice encoded


class SortedAgentQuery(AgentFilterQuery):
    phase = Choice(ShownPhase, load_default=None)
    """Only agents in this phase; `archived` implies `include_archived`."""
    agent = ListOf(Uuid(), max_items=MAX_AGENTS, load_default=list)
    """Only this agent; repeat it for several."""
    sort = Choice(AgentSort, load_default=AgentSort.NEWEST)
    """The order of the list. An agent whose value changes between two pages may be on both, or on neither;
    others are not affected."""
    limit = Integer(min_value=1, max_value=MAX_LIMIT, load_default=DEFAULT_LIMIT)
    """The maximum number of agents on a page. A page of very long rows has fewer, and its `Link` leads on."""
    after = Line(blank=False, max_length=MAX_POSITION, load_default=None)
    """The position at which the page begins, as the `Link` header of the page before names it."""


class SupervisorRowResponse(TypedDict):
    """An agent in a list for people: what it does and why, what wakes it next, and what it costs."""

    agent: UUID
    """The id of the agent."""
    name: str
    """The name of the agent."""
    organization: UUID
    """The organization that the agent belongs to."""
    template: UUID | None
    """The template of the agent; null if it has none."""
    template_name: str | None
    """The name of the template; null if it has none."""
    tags: Sequence[str]
    """Labels of yours to filter by."""
    purpose: Purpose
    """A label to filter by."""
    timezone: str
    """The IANA time zone of the agent."""
    status: AgentStatus
    """Whether the agent runs, sleeps or is archived."""
    phase: ShownPhase
    """The state of the agent as its supervisor sees it."""
    since: datetime | None
    """When the phase began, as far as it is known; null if it is not."""
    why: str
    """Why the agent is in this phase, in a sentence or two for people."""
    next_wake: NextWake | None
    """When and why it wakes next by itself; null if only a schedule or something new can wake it."""
    cost_today_usd: Decimal
    """What its model calls have cost in the present UTC day, in US dollars, without those of unknown cost."""
    unpriced_calls_today: int
    """How many of the day's model calls are of unknown cost."""
    max_cost_usd_per_day: Decimal | None
    """What it may spend in a UTC day, by its own cap or that of its template; null if neither has one."""
    uncleared_high: int
    """How many high notifications are active: uncleared, and not scheduled for later."""
    run: UUID | None
    """The active run; null if there is none."""
    node: str | None
    """The name of the node that attends the agent; null while no node does."""


def serialize_row(row: AgentRow, summary: AgentSummary) -> SupervisorRowResponse:
    return {
        "agent": row.id,
        "name": row.name,
        "organization": row.organization_id,
        "template": row.template_id,
        "template_name": row.template_name,
        "tags": row.tags,
        "purpose": row.purpose,
        "timezone": row.timezone,
        "status": summary.status,
        "phase": summary.phase,
        "since": summary.since,
        "why": summary.why,
        "next_wake": summary.next_wake,
        "cost_today_usd": row.cost_today_usd,
        "unpriced_calls_today": row.unpriced_calls_today,
        "max_cost_usd_per_day": row.max_cost_usd_per_day,
        "uncleared_high": summary.uncleared_high,
        "run": summary.run,
        "node": summary.node,
    }


class OverviewQuery(Body):
    organization = Uuid(load_default=None)
    """Only this organization. Left out: all of yours."""


class AttentionResponse(TypedDict):
    """Something that needs a person."""

    kind: AttentionKind
    """What it is."""
    sentence: str
    """What is wrong and what follows from it, in a sentence or two for people."""
    since: datetime | None
    """Since when; null if it is not known."""
    organization: UUID
    """The organization that it is about."""
    agent: UUID | None
    """The agent that it is about; null if it is about something else."""
    agent_name: str | None
    """The name of the agent; null if it is about something else."""
    timezone: str | None
    """The IANA time zone of the agent; null if it is about something else."""
    webhook: UUID | None
    """The event webhook that it is about; null if it is about something else."""
    message: UUID | None
    """The message that was not sent; null if it is about something else."""
    run: UUID | None
    """The run in which something failed, or that wrote the message; null if there is none."""
    delivery: UUID | None
    """The delivery that the webhook of a template did not take; null if it is about something else."""
    schedule: UUID | None
    """The schedule that has stopped; null if it is about something else."""
    approval: UUID | None
    """The call or question that waits for a person; null if it is about something else."""


class AgendaResponse(TypedDict):
    """A wake that lies ahead."""

    at: datetime
    """When the agent wakes, unless something else wakes it earlier."""
    kind: AgendaKind
    """The cause."""
    because: str
    """The cause, as a sentence; a reminder with its title."""
    agent: UUID
    """The agent."""
    agent_name: str
    """The name of the agent."""
    timezone: str
    """The IANA time zone of the agent."""


class OverviewResponse(TypedDict):
    """What the agents of organizations do, what needs a person, and who wakes in the next 24 hours."""

    as_of: datetime
    """The moment that the answer is about."""
    sentence: str
    """How many agents do what, and how many things need a person, as sentences."""
    phases: Mapping[ShownPhase, int]
    """How many agents are in each phase; a phase without any is left out."""
    attention: Sequence[AttentionResponse]
    """What needs a person, at most 20 of each kind, the longest-standing first. Agents of a paused
    organization are left out."""
    attention_total: int
    """How many things need a person."""
    attention_counts: Mapping[AttentionKind, int]
    """How many there are of each kind. Only of `quarantined` and `over_budget`, more than 100 are
    counted."""
    agenda: Sequence[AgendaResponse]
    """The wakes of the next 24 hours, at most 100, the next one first."""
    agenda_total: int
    """How many wakes there are. Beyond 100, moments at which an agent acts without waking count, too."""


def _of(name: str, *kinds: type) -> Callable[[AttentionItem], object]:
    """Return a function that shows an attribute of the subject of an item; None if it is of another kind."""
    return lambda item: getattr(item.subject, name) if isinstance(item.subject, kinds) else None


_serialize_attention = Serializer(
    AttentionResponse,
    AttentionItem,
    since="subject.since",
    organization="subject.organization_id",
    agent=_of("agent_id", TroubledAgent),
    agent_name=_of("name", TroubledAgent),
    timezone=_of("timezone", TroubledAgent),
    webhook=_of("id", FailingWebhook),
    message=_of("id", FailedMessage),
    run=_of("run_id", FailedMessage, FailedRun),
    delivery=_of("id", FailedDelivery),
    schedule=_of("id", ScheduleWithoutZone),
    approval=_of("id", AskingAgent),
)
_serialize_agenda = Serializer(
    AgendaResponse, AgendaItem, agent="agent.agent_id", agent_name="agent.name", timezone="agent.timezone"
)

routes = Routes()

LIES_AHEAD = "This moment lies ahead: leave at out to see the present."
MAX_TOTAL = 100_000
UNKNOWN_POSITION = (
    "This is no position in a list of this order: take the address of the next page from the Link header."
)
MAX_COUNT = 2**63 - 1
MAX_SUM = MAX_COUNT * MAX_MONEY  # of the costs of a day, each of which may be as high as any amount


@routes.get("/api/cloud/agents/{id}/supervisor/", query=SupervisorAtQuery)
async def get_supervisor(request: web.Request, caller: Caller) -> Snapshot | PastSupervisorResponse:
    """Explain what the agent is doing and why, and what wakes it next; with `at`, as it was then."""
    return await explain_agent(request, await agent_of_path(request, caller), read_query(request))


async def explain_agent(
    request: web.Request, agent_id: UUID, query: dict[str, Any]
) -> Snapshot | PastSupervisorResponse:
    """Return the explanation of the agent at the moment of a `SupervisorAtQuery`, else at present.

    Raise NotFound if the agent does not exist, Invalid for a moment that lies ahead.
    """
    if query["at"] is None:
        snapshot = await _with_schedule(request, require_found(await request.app[STATUS].snapshot(agent_id)))
        return await _with_pending(request, snapshot)
    agent = require_found(await request.app[STORAGE].agents.get(agent_id))
    localize(query, ("at",), ZoneInfo(agent.timezone))
    if query["at"] > request.app[CLOCK].now():
        raise Invalid({"at": [LIES_AHEAD]})
    past = require_found(await request.app[TIMELINES].state_at(agent_id, query["at"]))
    return serialize_past(agent, query["at"], past)


async def _with_schedule(request: web.Request, snapshot: Snapshot) -> Snapshot:
    """Add the schedule that wakes a sleeping agent before anything else does."""
    app, wake = request.app, snapshot.next_wake
    if snapshot.phase is not Phase.ASLEEP:
        return snapshot
    coming = soonest(await app[STORAGE].schedules.list_of_agent(snapshot.agent))
    if coming is None or (comes := comes_at(coming)) is None:
        return snapshot
    outlook = await app[STATUS].outlook(snapshot.agent)
    if outlook is None or outlook[1].over_budget is not None:
        return snapshot
    delay = delay_of(outlook[0].limits, comes)
    at = comes if delay is None else delay.until
    if wake is not None and wake.at < at:
        return snapshot
    because = why_wakes(coming) if delay is None else why_wakes_later(coming, delay)
    return replace(snapshot, why=f"{snapshot.why} {because}", next_wake=NextWake(at, because))


async def _with_pending(request: web.Request, snapshot: Snapshot) -> Snapshot:
    """Add what a sleeping agent waits for a person for."""
    if snapshot.phase is not Phase.ASLEEP:
        return snapshot
    pending = await request.app[STORAGE].parked_calls.count_pending_of(snapshot.agent)
    return replace(snapshot, why=f"{snapshot.why} {why_pending(pending)}".rstrip())


@routes.get("/api/cloud/supervisors/", answer=list[SupervisorRowResponse], query=SortedAgentQuery)
async def list_own_supervisors(request: web.Request, caller: Caller) -> web.Response:
    """List the agents of your organizations with what they do, why, and what it costs.

    The first page counts all that match in `X-Total-Count`, up to 100,000; that number stands for more, too.
    """
    query = read_query(request)
    filters = await read_agent_filters(request, caller, query)
    after = query["after"] and read_position(query["after"], query["sort"])
    page = SortedPage(request.app[CLOCK].now(), after, query["limit"] + 1)
    headers: dict[str, str] = {}
    async with request.app[ROOM].reading(caller.accountable):
        sorted_agents = request.app[STORAGE].sorted_agents
        rows = await sorted_agents.list_page(filters, query["sort"], page)
        if after is None and not filters.ids:
            headers[TOTAL_HEADER] = str(await sorted_agents.count(filters, MAX_TOTAL))
        has_next = rows.is_cut or len(rows) > query["limit"]
        del rows[query["limit"] :]
        items = await explain_rows(request, filters, rows)
    if has_next:
        headers |= next_link(request, write_position(rows[-1].position), query["limit"])
    return json_response(items, headers=headers)


async def explain_rows(
    request: web.Request, filters: AgentFilters, rows: Sequence[AgentRow]
) -> list[SupervisorRowResponse]:
    """Return the rows with the explanations of their agents.

    An agent that was deleted since the rows were read is left out, and so is one that has left the phase
    of the filter.
    """
    summaries = await request.app[STATUS].summaries([row.id for row in rows])
    shown: list[SupervisorRowResponse] = []
    for row in rows:
        summary = summaries.get(row.id)
        if summary is not None and filters.phase in {None, summary.phase}:
            shown.append(serialize_row(row, summary))
    return shown


@routes.get("/api/cloud/overview/", query=OverviewQuery)
async def get_overview(request: web.Request, caller: Caller) -> OverviewResponse:
    """Show what the agents of your organizations do, what needs a person, and who wakes next.

    Webhooks are among it where you are an admin or owner.
    """
    return await read_overview(request, caller, read_query(request)["organization"])


async def read_overview(
    request: web.Request, caller: Caller, organization_id: UUID | None
) -> OverviewResponse:
    """Return the overview of one of the caller's organizations, or of all of them."""
    await require_organization(request, caller, organization_id)
    owners = [own_id for own_id in caller.organizations if organization_id in {None, own_id}]
    administered = [own_id for own_id in owners if caller.is_admin(own_id)]
    app = request.app
    storage = app[STORAGE]
    reader = OverviewReader(storage.overviews, storage.attention, storage.schedules, app[STATUS], app[CLOCK])
    async with app[ROOM].reading(caller.accountable):
        overview = await reader.read(owners, administered, app[HEALTH].forgotten())
    attention = overview.attention
    return {
        "as_of": overview.as_of,
        "sentence": overview.sentence,
        "phases": overview.phases,
        "attention": [_serialize_attention(item) for item in attention.items],
        "attention_total": attention.counts.total(),
        "attention_counts": attention.counts,
        "agenda": [_serialize_agenda(item) for item in overview.agenda],
        "agenda_total": overview.agenda_total,
    }


def write_position(position: Position) -> str:
    """Return the position as text."""
    value = None if position.value is None else str(position.value)
    parts = [value, position.created_at.isoformat(), str(position.id)]
    return urlsafe_b64encode(orjson.dumps(parts)).rstrip(b"=").decode()


def read_position(text: str, sort: AgentSort) -> Position:
    """Return the position that `write_position` wrote. Raise Invalid for any other text."""
    try:
        value, created_at, agent_id = orjson.loads(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        read = None if value is None else READERS[sort].deserialize(value)
        return Position(read, INSTANT.deserialize(created_at), Uuid().deserialize(agent_id))
    except (ValueError, KeyError, ValidationError):
        raise Invalid({"after": [UNKNOWN_POSITION]}) from None


INSTANT = UtcDatetime()
READERS: dict[AgentSort, Field[Value]] = {
    AgentSort.NAME: Text(),
    AgentSort.NEXT_WAKE: INSTANT,
    AgentSort.COST: Money(max_value=MAX_SUM),
    AgentSort.UNCLEARED: Integer(min_value=0, max_value=MAX_COUNT),
}
