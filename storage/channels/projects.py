"""Projects: what agents work on over a longer time."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Any
from uuid import UUID

from storage.delivery.receipts import insert_once
from storage.model import Receipt
from storage.postgres.paging import Chunk, OfAgents, OwnedTable, Page, fetch_page
from storage.postgres.pool import Pool
from storage.postgres.query import ALWAYS, Period, assign
from storage.postgres.shared_reads import SharedReads
from storage.postgres.statement import delete_row, fields_of, from_row, insert_into

UPDATE = "UPDATE project SET /* set */ WHERE id = $1"


class ProjectStatus(StrEnum):
    """The progress of a project, which the service only stores."""

    ACTIVE = "active"
    """Work goes on; the default."""
    DONE = "done"
    """The work is done."""
    ARCHIVED = "archived"
    """Kept for reference."""


@dataclass(frozen=True, slots=True)
class Project:
    """A piece of work; one without an agent belongs to all agents of the organization."""

    id: UUID
    organization_id: UUID
    agent_id: UUID | None
    name: str
    description: str
    status: ProjectStatus
    created_at: datetime
    updated_at: datetime


TABLE = OwnedTable("project", "p", Project, OfAgents.SOME)


@dataclass(frozen=True, slots=True)
class ProjectFilters:
    """The projects that a list shows: those of organizations, or those that one agent sees."""

    organization_ids: tuple[UUID, ...]
    agent_id: UUID | None = None
    status: ProjectStatus | None = None
    created: Period = ALWAYS
    visible_to: UUID | None = None


class Projects:
    """The table `project`. A deleted agent's projects are not found."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.get = SharedReads(
            "projects", pool, TABLE.get, partial(from_row, Project), texts=("p.description",)
        )

    async def insert(self, project: Project, receipt: Receipt | None = None) -> None:
        """Store the project.

        Raise ReferenceMissing for `agent`, AnsweredBefore if the receipt exists already.
        """
        insert = insert_into("project", fields_of(project))
        await insert_once(self._pool, receipt, project.organization_id, *insert)

    async def list_page(self, filters: ProjectFilters, page: Page) -> Chunk[Project]:
        """List one page of the projects, newest first."""
        statement, conditions = TABLE.listing(filters.organization_ids, filters.visible_to, page)
        conditions.add_optional("p.agent_id = $", filters.agent_id)
        conditions.add_optional("p.status = $", filters.status)
        conditions.add_period("p.created_at", filters.created)
        return await fetch_page(self._pool, Project, statement, conditions)

    async def update(self, project_id: UUID, changes: Mapping[str, Any], now: datetime) -> Project | None:
        """Set the columns in `changes` and return the project; None if there is no such project."""
        if changes:
            changes = {**changes, "updated_at": now}
            sql = assign(UPDATE, changes, Project, after=1)
            await self._pool.execute(sql, project_id, *changes.values())
        return await self.get(project_id)

    async def delete(self, project_id: UUID) -> bool:
        """Delete the project; False if there is no such project. Its documents stay, without a project."""
        return await delete_row(self._pool, "project", project_id)
