"""Documents without their contents, for the list that agents see."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from storage.postgres.page_conditions import PageConditions, fetch_page
from storage.postgres.paging import Chunk, Page
from storage.postgres.pool import Pool

PAGE = """
SELECT d.* FROM (
    (SELECT d.id, d.project_id, d.title, d.path, octet_length(d.content) AS size_bytes, d.created_at,
            d.updated_at
     FROM document d
     WHERE d.agent_id = $1 AND d.deleted_at IS NULL /* and */
     ORDER BY d.created_at DESC, d.id DESC LIMIT $2::bigint + $3::bigint)
    UNION ALL
    (SELECT d.id, d.project_id, d.title, d.path, octet_length(d.content) AS size_bytes, d.created_at,
            d.updated_at
     FROM document d
     WHERE d.organization_id = (SELECT a.organization_id FROM agent a WHERE a.id = $1)
       AND d.agent_id IS NULL AND d.deleted_at IS NULL /* and */
     ORDER BY d.created_at DESC, d.id DESC LIMIT $2::bigint + $3::bigint)
) d
ORDER BY d.created_at DESC, d.id DESC LIMIT $2 OFFSET $3
"""


@dataclass(frozen=True, slots=True)
class DocumentTitle:
    """A document without its content, which has `size_bytes`."""

    id: UUID
    project_id: UUID | None
    title: str
    path: str | None
    size_bytes: int
    created_at: datetime
    updated_at: datetime


async def list_titles(
    pool: Pool, agent_id: UUID, project_id: UUID | None, page: Page
) -> Chunk[DocumentTitle]:
    """List one page of what an agent sees, newest first: its documents and those for all agents."""
    conditions = PageConditions(agent_id, page, "d.created_at, d.id")
    conditions.add_optional("d.project_id = $", project_id)
    return await fetch_page(pool, DocumentTitle, PAGE, conditions)
