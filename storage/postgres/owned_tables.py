"""Tables of what organizations own, and the statements that read all of them in the same way."""

from collections.abc import Collection
from dataclasses import fields
from enum import StrEnum
from typing import TYPE_CHECKING
from uuid import UUID

from storage.postgres.page_conditions import OrganizationsPage, PageConditions
from storage.postgres.paging import Page

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

GET = """
SELECT {columns} FROM {table} {t}
WHERE {t}.id = ANY((SELECT $1::uuid[])::uuid[]){kept} /* and */
"""

# Read a page of each organization along its index, then take the newest of all.
PAGE = """
SELECT {t}.* FROM unnest(/* organizations */) AS o (id)
CROSS JOIN LATERAL (
    SELECT {columns} FROM {table} {t}
    WHERE {t}.organization_id = o.id{kept} /* and */
    ORDER BY {t}.created_at DESC, {t}.id DESC LIMIT /* rows */
) {t}
ORDER BY {t}.created_at DESC, {t}.id DESC LIMIT $2 OFFSET $3
"""

# What one agent sees: its own, and those for all agents of its organization.
PAGE_FOR_AGENT = """
SELECT {t}.* FROM (
    (SELECT {columns} FROM {table} {t}
     WHERE {t}.agent_id = $1 /* and */
     ORDER BY {t}.created_at DESC, {t}.id DESC LIMIT $2::bigint + $3::bigint)
    UNION ALL
    (SELECT {columns} FROM {table} {t}
     WHERE {t}.organization_id = (SELECT a.organization_id FROM agent a WHERE a.id = $1)
       AND {t}.agent_id IS NULL /* and */
     ORDER BY {t}.created_at DESC, {t}.id DESC LIMIT $2::bigint + $3::bigint)
) {t}
ORDER BY {t}.created_at DESC, {t}.id DESC LIMIT $2 OFFSET $3
"""


class OfAgents(StrEnum):
    """The condition that the agent of a row, if it has one, is not deleted.

    It is a subquery: for a join the planner expects few rows, and would sort all of them for each page.
    """

    NONE = ""
    """The rows belong to no agent."""
    ALL = " AND (SELECT a.deleted_at IS NULL FROM agent a WHERE a.id = {t}.agent_id)"
    """Each row belongs to an agent."""
    SOME = " AND coalesce((SELECT a.deleted_at IS NULL FROM agent a WHERE a.id = {t}.agent_id), true)"
    """A row without an agent belongs to all agents of the organization."""


class OwnedTable:
    """The statements that read a table by id, and in pages that are newest first.

    They select the columns of the model from the table under a short name, which further conditions use.
    """

    def __init__(
        self,
        table: str,
        short_name: str,
        model: type["DataclassInstance"],
        of_agents: OfAgents = OfAgents.NONE,
    ) -> None:
        columns = ", ".join(f"{short_name}.{field.name}" for field in fields(model))
        kept = of_agents.format(t=short_name)
        names = {"table": table, "t": short_name, "columns": columns, "kept": kept}
        self.get = GET.format(**names)
        self.page = PAGE.format(**names)
        self.page_for_agent = PAGE_FOR_AGENT.format(**names)
        self.order = f"{short_name}.created_at, {short_name}.id"

    def listing(
        self, organization_ids: Collection[UUID], agent_id: UUID | None, page: Page
    ) -> tuple[str, PageConditions]:
        """Return the statement and its conditions for what organizations own, or what an agent sees of it."""
        if agent_id is None:
            return self.page, OrganizationsPage(organization_ids, page, self.order)
        return self.page_for_agent, PageConditions(agent_id, page, self.order)
