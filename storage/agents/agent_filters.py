"""The filters of the lists of agents, as conditions on the rows of `agent` and `agent_state`."""

from dataclasses import dataclass
from typing import LiteralString
from uuid import UUID

from storage.model import AgentStatus, Purpose
from storage.postgres.page_conditions import OrganizationsPage, PageConditions
from storage.postgres.paging import Page
from storage.postgres.query import Conditions

IS_PAUSED = "a.organization_id IN (SELECT id FROM organization WHERE paused)"

# The stored phase is that of the event log, which ignores pauses of organizations.
BY_PHASE: dict[str, LiteralString] = {
    "archived": "s.phase = $",
    "stopping": f"(s.phase = $ OR s.run_id IS NOT NULL AND {IS_PAUSED})",
}
OTHER_PHASE: LiteralString = f"s.phase = $ AND NOT ({IS_PAUSED})"
PAUSED: LiteralString = f"s.status = 'sleeping' AND s.run_id IS NULL AND (s.paused OR {IS_PAUSED})"


@dataclass(frozen=True, slots=True)
class AgentFilters:
    """The agents that a list shows: those with all of `tags`, whose names are `name` or contain `search`.

    Upper and lower case are the same in names. `phase` is the one that clients see. With `ids`, only agents
    with one of these ids are shown.
    """

    organization_ids: tuple[UUID, ...]
    include_archived: bool = False
    purpose: Purpose | None = None
    tags: tuple[str, ...] = ()
    template_id: UUID | None = None
    status: AgentStatus | None = None
    parent_id: UUID | None = None
    name: str | None = None
    search: str | None = None
    phase: str | None = None
    ids: tuple[UUID, ...] = ()


def add_filters(conditions: Conditions, filters: AgentFilters) -> None:
    """Add the conditions of all filters but the organizations, on `agent` as `a` and `agent_state` as `s`.

    Archived agents are left out unless `include_archived`, `status` or `phase` asks for them.
    """
    conditions.add_optional("s.status = $", filters.status)
    if filters.status is None and filters.phase != "archived" and not filters.include_archived:
        conditions.add("s.status <> 'archived'")
    conditions.add_optional("a.purpose = $", filters.purpose)
    if filters.tags:
        conditions.add("a.tags @> $::text[]", filters.tags)
    conditions.add_optional("a.template_id = $", filters.template_id)
    conditions.add_optional("a.parent_id = $", filters.parent_id)
    conditions.add_optional("lower(a.name) = lower($)", filters.name)
    if filters.search is not None:
        conditions.add("strpos(lower(a.name), lower($)) > 0", filters.search)
    if filters.phase == "paused":
        conditions.add(PAUSED)
    elif filters.phase is not None:
        conditions.add(BY_PHASE.get(filters.phase, OTHER_PHASE), filters.phase)
    if filters.ids:
        conditions.add("a.id = ANY($::uuid[])", filters.ids)


def page_conditions(filters: AgentFilters, page: Page) -> PageConditions:
    """Return the conditions of a list that is newest first."""
    conditions = OrganizationsPage(filters.organization_ids, page, "a.created_at, a.id")
    add_filters(conditions, filters)
    return conditions
