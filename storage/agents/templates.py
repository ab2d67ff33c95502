"""Templates: defaults that many agents share."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any
from uuid import UUID

from asyncpg import Record

from storage.delivery.receipts import insert_once
from storage.encryption import NO_ENCRYPTION, SecretCipher, tool_call_secret_of
from storage.errors import ReferenceMissing
from storage.events.model import BY_SERVICE
from storage.model import Agent, Receipt, Template
from storage.organization_limits import OrganizationLimits
from storage.postgres.paging import Chunk, OrganizationsPage, OwnedTable, Page, fetch_page
from storage.postgres.pool import Pool
from storage.postgres.query import assign
from storage.postgres.shared_reads import SharedReads
from storage.postgres.statement import fields_of, from_row, insert_into

TABLE = OwnedTable("template", "t", Template)

UPDATE = """
UPDATE template SET prompt_author = $2, prompt_changed_at = $3, /* set */ WHERE id = $1 RETURNING *
"""

# Deleted agents do not count as users: their rows, which still name the template, are released.
DELETE_UNUSED = """
WITH users AS (
    SELECT count(*) AS count FROM agent WHERE template_id = $1 AND deleted_at IS NULL
), released AS (
    UPDATE agent SET template_id = NULL
    WHERE template_id = $1 AND deleted_at IS NOT NULL AND (SELECT count FROM users) = 0
), gone AS (
    DELETE FROM template WHERE id = $1 AND (SELECT count FROM users) = 0
)
SELECT count FROM users
"""

# Copy into the agents what they inherit, by the rules of inheritance.
DELETE_DETACHING = """
WITH detached AS (
    UPDATE agent a
    SET template_id = NULL,
        system_prompt = CASE a.system_prompt WHEN '' THEN t.system_prompt ELSE a.system_prompt END,
        prompt_author = $3,
        prompt_changed_at = $2,
        reasoning_effort = CASE a.reasoning_effort
            WHEN '' THEN t.default_reasoning_effort ELSE a.reasoning_effort END,
        max_turns = CASE a.max_turns WHEN 0 THEN t.max_turns ELSE a.max_turns END,
        debounce_window_seconds = coalesce(a.debounce_window_seconds, t.debounce_window_seconds),
        harness_git_ref = coalesce(a.harness_git_ref, nullif(t.harness_git_ref, '')),
        max_cost_usd_per_day = coalesce(a.max_cost_usd_per_day, t.max_cost_usd_per_day),
        unpriced = coalesce(a.unpriced, t.unpriced),
        max_wakes_per_hour = coalesce(a.max_wakes_per_hour, t.max_wakes_per_hour),
        max_wakes_per_day = coalesce(a.max_wakes_per_day, t.max_wakes_per_day),
        quiet_hours = coalesce(a.quiet_hours, nullif(t.quiet_hours, ''))
    FROM template t WHERE t.id = $1 AND a.template_id = t.id
    RETURNING a.id, a.organization_id, a.deleted_at
), inserted_event AS (
    INSERT INTO event (at, type, organization_id, agent_id, actor, data)
    SELECT $2, 'agent.changed', organization_id, id, $3, '{"fields":["template"]}'
    FROM detached WHERE deleted_at IS NULL ORDER BY id
)
DELETE FROM template WHERE id = $1
"""


class Templates:
    """The table `template`."""

    def __init__(
        self, pool: Pool, cipher: SecretCipher = NO_ENCRYPTION, limits: OrganizationLimits | None = None
    ) -> None:
        self._pool = pool
        self._limits = limits or OrganizationLimits(pool)
        self._cipher = cipher
        self.get = SharedReads(
            "templates",
            pool,
            TABLE.get,
            self._template,
            texts=("description", "system_prompt"),
            documents=("environment_secrets", "response_format"),
        )

    async def get_of(self, agent: Agent) -> Template | None:
        """Return the template of the agent; None if it has none."""
        return await self.get(agent.template_id) if agent.template_id else None

    async def insert(
        self, template: Template, receipt: Receipt | None = None, *, actor: str = BY_SERVICE
    ) -> None:
        """Store the template. Raise AnsweredBefore if the receipt exists already."""
        secret = self._cipher.encrypt(template.tool_call_secret or "", tool_call_secret_of(template.id))
        stored = fields_of(template) | {"tool_call_secret": secret, "prompt_author": actor}
        insert = insert_into("template", stored)
        await insert_once(self._pool, receipt, template.organization_id, *insert)

    async def update(
        self, template_id: UUID, changes: Mapping[str, Any], now: datetime, *, actor: str = BY_SERVICE
    ) -> Template | None:
        """Set the columns in `changes` and return the template; None if there is no such template.

        A prompt that is replaced is kept as a version. Raise LimitReached.
        """
        if not changes:
            return await self.get(template_id)
        if "tool_call_secret" in changes:
            place = tool_call_secret_of(template_id)
            secret = self._cipher.encrypt(changes["tool_call_secret"], place)
            changes = {**changes, "tool_call_secret": secret}
        statement = assign(UPDATE, changes, Template, after=3)
        before = await self.get(template_id) if "system_prompt" in changes else None
        async with self._limits.prompt_reserved(before, changes):
            row = await self._pool.fetchrow(statement, template_id, actor, now, *changes.values())
        return None if row is None else self._template(row)

    async def list_page(self, organization_ids: tuple[UUID, ...], page: Page) -> Chunk[Template]:
        """List one page of the organizations' templates, newest first."""
        conditions = OrganizationsPage(organization_ids, page, TABLE.order)
        return await fetch_page(self._pool, Template, TABLE.page, conditions, self._template)

    async def delete_unused(self, template_id: UUID) -> int:
        """Delete the template and its adapter configs unless agents use it; return their number."""
        while True:
            with suppress(ReferenceMissing):  # an agent began to use it after the users were counted
                return int(await self._pool.fetchval(DELETE_UNUSED, template_id))

    async def delete_detaching(self, template_id: UUID, now: datetime, *, actor: str = BY_SERVICE) -> None:
        """Delete the template and its adapter configs, and copy into its agents what they inherit."""
        while True:
            with suppress(ReferenceMissing):  # an agent began to use it after the others were detached
                await self._pool.change(DELETE_DETACHING, template_id, now, actor)
                return

    def _template(self, row: Record) -> Template:
        return template_of(row, self._cipher)


def template_of(row: Record, cipher: SecretCipher) -> Template:
    """Build a template from its row, with its secret decrypted."""
    secret = cipher.decrypt_or_none(row["tool_call_secret"], tool_call_secret_of(row["id"]))
    return from_row(Template, row, tool_call_secret=secret)
