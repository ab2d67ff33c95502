"""Templates: defaults that many agents share."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from asyncpg import Record

from storage.clauses import assign
from storage.model import ReasoningEffort, Receipt, Template
from storage.pool import Pool
from storage.receipts import insert_receipt
from storage.rows import from_row

INSERT = """
INSERT INTO template (
    id, organization_id, name, description, system_prompt, default_model, default_reasoning_effort,
    thinking_max_tokens, max_turns, debounce_window_seconds, harness_git_ref,
    agent_created_webhook_url, tool_call_secret, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
"""

GET = "SELECT * FROM template WHERE id = $1"

UPDATE = "UPDATE template SET /* set */ WHERE id = $1 RETURNING *"

CHANGEABLE = frozenset(
    {
        "name",
        "description",
        "system_prompt",
        "default_model",
        "default_reasoning_effort",
        "thinking_max_tokens",
        "max_turns",
        "debounce_window_seconds",
        "harness_git_ref",
        "agent_created_webhook_url",
        "tool_call_secret",
    }
)


class Templates:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def insert(self, template: Template, receipt: Receipt | None = None) -> None:
        async with self._pool.transaction() as connection:
            await insert_receipt(connection, receipt, template.organization_id)
            await connection.execute(
                INSERT,
                template.id,
                template.organization_id,
                template.name,
                template.description,
                template.system_prompt,
                template.default_model,
                template.default_reasoning_effort,
                template.thinking_max_tokens,
                template.max_turns,
                template.debounce_window_seconds,
                template.harness_git_ref,
                template.agent_created_webhook_url,
                template.tool_call_secret,
                template.created_at,
            )

    async def get(self, template_id: UUID) -> Template | None:
        row = await self._pool.fetchrow(GET, template_id)
        return None if row is None else _template(row)

    async def update(self, template_id: UUID, changes: Mapping[str, Any]) -> Template | None:
        """The template after the changes, by column; None if there is no such template."""
        if not changes:
            return await self.get(template_id)
        row = await self._pool.fetchrow(
            assign(UPDATE, changes, CHANGEABLE, after=1), template_id, *changes.values()
        )
        return None if row is None else _template(row)


def _template(row: Record) -> Template:
    effort = ReasoningEffort(row["default_reasoning_effort"])
    return from_row(Template, row, default_reasoning_effort=effort)
