"""Agents with what they do and why, as a list: query and response."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import TypedDict
from uuid import UUID

from storage.agents.sorted_agents import AgentRow, AgentSort
from storage.model import AgentStatus, Purpose
from supervisors.engine.snapshot import AgentSummary, NextWake
from supervisors.policy.phases import ShownPhase
from web.fields import Choice, Integer, Line, ListOf, Uuid
from web.schemas.agents import AgentFilterQuery

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
    """When and why it wakes next by itself; null if only something new can wake it."""
    cost_today_usd: Decimal
    """What its model calls have cost in the present UTC day, in US dollars."""
    max_cost_usd_per_day: Decimal | None
    """What it may spend in a UTC day, by its own cap or that of its template; null if neither has one."""
    uncleared_high: int
    """How many high notifications are active: uncleared, and not scheduled for later."""
    run: UUID | None
    """The active run; null if there is none."""


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
        "max_cost_usd_per_day": row.max_cost_usd_per_day,
        "uncleared_high": summary.uncleared_high,
        "run": summary.run,
    }
