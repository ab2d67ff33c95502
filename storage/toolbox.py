"""Adapters: packages of tools, their settings for templates, and the tools that agents have through them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from asyncpg import Record

from storage.agents.secrets import Secrets
from storage.delivery.receipts import insert_once
from storage.encryption import NO_ENCRYPTION, SecretCipher, config_of, tool_call_secret_of
from storage.errors import ReferenceMissing
from storage.model import Receipt, Visibility
from storage.postgres.json_values import decoded
from storage.postgres.paging import Chunk, Page, PageConditions, fetch_page
from storage.postgres.pool import Pool
from storage.postgres.query import assign, fill_in
from storage.postgres.shared_reads import SharedReads
from storage.postgres.statement import delete_row, fetch_all, fetch_one, fields_of, from_row, insert_into

GET_ADAPTER = "SELECT * FROM adapter WHERE id = ANY((SELECT $1::uuid[])::uuid[]) /* and */"

# Read a page of each organization, and one of the public adapters of others, each along its index; then take
# the newest of all.
PAGE_ADAPTER = """
SELECT * FROM (
    SELECT a.* FROM unnest($1::uuid[]) AS o (id)
    CROSS JOIN LATERAL (
        SELECT a.* FROM adapter a WHERE a.organization_id = o.id /* and */
        ORDER BY a.created_at DESC, a.id DESC LIMIT $2::bigint + $3::bigint
    ) a
    UNION ALL (
        SELECT a.* FROM adapter a
        WHERE a.visibility = 'public' AND a.organization_id <> ALL ($1::uuid[]) /* and */
        ORDER BY a.created_at DESC, a.id DESC LIMIT $2::bigint + $3::bigint
    )
) a
ORDER BY a.created_at DESC, a.id DESC LIMIT $2 OFFSET $3
"""

UPDATE_ADAPTER = "UPDATE adapter SET /* set */ WHERE id = $1 RETURNING *"

PUBLISH = "UPDATE adapter SET visibility = 'public' WHERE id = $1 RETURNING *"


@dataclass(frozen=True, slots=True)
class Adapter:
    """An adapter; `config_schema` is the JSON Schema of its configs."""

    id: UUID
    organization_id: UUID
    name: str
    description: str
    visibility: Visibility
    detail_url: str
    config_schema: dict[str, Any]
    created_at: datetime


class Adapters:
    """The table `adapter`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.get = SharedReads(
            "adapters",
            pool,
            GET_ADAPTER,
            partial(from_row, Adapter),
            texts=("description",),
            documents=("config_schema",),
        )

    async def insert(self, adapter: Adapter, receipt: Receipt | None = None) -> None:
        """Store the adapter. Raise AnsweredBefore if the receipt exists already."""
        insert = insert_into("adapter", fields_of(adapter))
        await insert_once(self._pool, receipt, adapter.organization_id, *insert)

    async def list_page(
        self, organization_ids: tuple[UUID, ...], visibility: Visibility | None, page: Page
    ) -> Chunk[Adapter]:
        """List one page of the adapters that the organizations may see, newest first.

        These are their own adapters and the public ones.
        """
        conditions = PageConditions(organization_ids, page, "a.created_at, a.id")
        conditions.add_optional("a.visibility = $", visibility)
        return await fetch_page(self._pool, Adapter, PAGE_ADAPTER, conditions)

    async def update(self, adapter_id: UUID, changes: Mapping[str, Any]) -> Adapter | None:
        """Set the columns in `changes` and return the adapter; None if there is no such adapter."""
        if not changes:
            return await self.get(adapter_id)
        sql = assign(UPDATE_ADAPTER, changes, Adapter, after=1)
        return await fetch_one(self._pool, Adapter, sql, adapter_id, *changes.values())

    async def publish(self, adapter_id: UUID) -> Adapter | None:
        """Make the adapter visible to every organization and return it; None if there is no such adapter."""
        return await fetch_one(self._pool, Adapter, PUBLISH, adapter_id)

    async def delete(self, adapter_id: UUID) -> bool:
        """Delete the adapter; return False if there is none.

        The foreign keys delete its tools and its configs, and detach it from its agents.
        """
        return await delete_row(self._pool, "adapter", adapter_id)


GET_ORGANIZATION = "SELECT organization_id FROM adapter WHERE id = $1"

GET_TOOL = "SELECT * FROM tool WHERE id = ANY((SELECT $1::uuid[])::uuid[]) /* and */"

# Select by the adapters, of which an organization sees few, so that other organizations' tools are not read.
PAGE_TOOL = """
SELECT t.* FROM tool t
WHERE t.adapter_id IN (
    SELECT id FROM adapter WHERE organization_id = ANY ($1::uuid[])
    UNION ALL SELECT id FROM adapter WHERE visibility = 'public') /* and */
ORDER BY t.created_at DESC, t.id DESC LIMIT $2 OFFSET $3
"""

UPDATE_TOOL = "UPDATE tool SET /* set */ WHERE id = $1 RETURNING *"

MCP = "mcp:"  # the prefix of the handler of a tool of an MCP server; its name there follows

LIST_IMPORTED = """
SELECT id, handler, url, description, parameters, offered FROM tool
WHERE adapter_id = $1 AND starts_with(handler, 'mcp:')
"""

# One tool, or all of an adapter.
ACCEPT = """
UPDATE tool t SET description = t.offered ->> 'description', parameters = t.offered -> 'parameters',
                  is_enforced = (t.offered ->> 'is_enforced')::boolean, url = s.url, offered = NULL
FROM mcp_server s
WHERE s.adapter_id = t.adapter_id AND (t.id = $1 OR t.adapter_id = $1)
      AND t.offered -> 'description' IS NOT NULL
RETURNING t.*
"""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool. `parameters` describe its arguments: a JSON Schema, or any other JSON value; None for none.

    If `is_enforced`, they are a JSON Schema of objects, and the arguments of a call must be valid under it.
    `approval`: which calls a person must allow: "never", "always", "first_use" or {"when": a JSON Schema}.
    """

    id: UUID
    adapter_id: UUID
    name: str
    description: str
    parameters: Any
    is_enforced: bool
    url: str
    handler: str
    detail_url: str
    created_at: datetime
    idempotent: bool = False
    approval: Any = "never"
    offered: Any = None  # by the server of an MCP tool, and not accepted yet


class Tools:
    """The table `tool`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.get = SharedReads(
            "tools",
            pool,
            GET_TOOL,
            partial(from_row, Tool),
            texts=("description",),
            documents=("parameters", "approval", "offered"),
        )

    async def insert(self, tool: Tool, receipt: Receipt | None = None) -> None:
        """Store the tool. A receipt belongs to the organization of the adapter.

        Raise NotUnique if the adapter has a tool of this name, ReferenceMissing for `adapter`, AnsweredBefore
        if the receipt exists already.
        """
        organization_id = await self._pool.fetchval(GET_ORGANIZATION, tool.adapter_id)
        if organization_id is None:
            raise ReferenceMissing("adapter")
        await insert_once(self._pool, receipt, organization_id, *insert_into("tool", fields_of(tool)))

    async def list_page(
        self, organization_ids: tuple[UUID, ...], adapter_id: UUID | None, page: Page
    ) -> Chunk[Tool]:
        """List one page of the tools of adapters that the organizations may see, newest first.

        `adapter_id` limits the list to one of these adapters.
        """
        conditions = PageConditions(organization_ids, page, "t.created_at, t.id")
        conditions.add_optional("t.adapter_id = $", adapter_id)
        return await fetch_page(self._pool, Tool, PAGE_TOOL, conditions)

    async def update(self, tool_id: UUID, changes: Mapping[str, Any]) -> Tool | None:
        """Set the columns in `changes` and return the tool; None if there is no such tool.

        Raise NotUnique if the adapter has a tool of this name.
        """
        if not changes:
            return await self.get(tool_id)
        sql = assign(UPDATE_TOOL, changes, Tool, after=1)
        return await fetch_one(self._pool, Tool, sql, tool_id, *changes.values())

    async def accept(self, tool_id: UUID) -> Tool | None:
        """Bring the tool up to date with its MCP server and return it; None if nothing is offered."""
        return await fetch_one(self._pool, Tool, ACCEPT, tool_id)

    async def delete(self, tool_id: UUID) -> bool:
        return await delete_row(self._pool, "tool", tool_id)


GET_CONFIG = """
SELECT c.*, (SELECT t.organization_id FROM template t WHERE t.id = c.template_id) AS organization_id
FROM adapter_config c WHERE c.id = ANY((SELECT $1::uuid[])::uuid[]) /* and */
"""

PAGE_CONFIG = """
SELECT c.*, t.organization_id FROM adapter_config c JOIN template t ON t.id = c.template_id
WHERE t.organization_id = ANY ($1::uuid[]) /* and */
ORDER BY c.created_at DESC, c.id DESC LIMIT $2 OFFSET $3
"""

UPDATE_CONFIG = """
UPDATE adapter_config c SET updated_at = greatest(c.updated_at, $2), /* set */
FROM template t WHERE c.id = $1 AND t.id = c.template_id RETURNING c.*, t.organization_id
"""


@dataclass(frozen=True, slots=True)
class AdapterConfig:
    """The config of one adapter for one template; `organization_id` is the template's.

    `config` is None if it cannot be decrypted. `secret_headers` are headers of tool calls, each with the name
    of the secret that is its value. `approval` takes the place of that of the tools, unless it is None.
    """

    id: UUID
    organization_id: UUID
    template_id: UUID
    adapter_id: UUID
    config: Any = field(repr=False)
    created_at: datetime
    updated_at: datetime
    secret_headers: Mapping[str, str] = field(default_factory=dict)
    approval: Any = None


class AdapterConfigs:
    """The table `adapter_config`."""

    def __init__(self, pool: Pool, cipher: SecretCipher = NO_ENCRYPTION) -> None:
        self._pool = pool
        self._cipher = cipher
        documents = ("c.config", "c.secret_headers", "c.approval")
        self.get = SharedReads("adapter configs", pool, GET_CONFIG, self._config, documents=documents)

    async def insert(self, config: AdapterConfig, receipt: Receipt | None = None) -> None:
        """Store the config.

        Raise NotUnique if the template has one for the adapter, ReferenceMissing for `template` or `adapter`,
        AnsweredBefore if the receipt exists already.
        """
        stored = self._cipher.encrypt_json(config.config, config_of(config.id))
        columns = fields_of(config, without=("organization_id",)) | {"config": stored}
        insert = insert_into("adapter_config", columns)
        await insert_once(self._pool, receipt, config.organization_id, *insert)

    async def list_page(
        self,
        organization_ids: tuple[UUID, ...],
        template_id: UUID | None,
        adapter_id: UUID | None,
        page: Page,
    ) -> Chunk[AdapterConfig]:
        """List one page of the configs of the organizations' templates, newest first."""
        conditions = PageConditions(organization_ids, page, "c.created_at, c.id")
        conditions.add_optional("c.template_id = $", template_id)
        conditions.add_optional("c.adapter_id = $", adapter_id)
        return await fetch_page(self._pool, AdapterConfig, PAGE_CONFIG, conditions, self._config)

    async def update(
        self, config_id: UUID, changes: Mapping[str, Any], now: datetime
    ) -> AdapterConfig | None:
        """Set the columns in `changes` and return the adapter config; None if there is none."""
        if not changes:
            return await self.get(config_id)
        if "config" in changes:
            stored = self._cipher.encrypt_json(changes["config"], config_of(config_id))
            changes = {**changes, "config": stored}
        statement = assign(UPDATE_CONFIG, changes, AdapterConfig, after=2)
        return self._found(await self._pool.fetchrow(statement, config_id, now, *changes.values()))

    async def delete(self, config_id: UUID) -> bool:
        return await delete_row(self._pool, "adapter_config", config_id)

    def _found(self, row: Record | None) -> AdapterConfig | None:
        return None if row is None else self._config(row)

    def _config(self, row: Record) -> AdapterConfig:
        config = self._cipher.decrypt_json_or_none(row["config"], config_of(row["id"]))
        return from_row(AdapterConfig, row, config=config)


MAX_TOOLS = 100  # of the adapters of one agent: model providers accept 128 with the built-in tools
MAX_SHOWN_CHARACTERS = 4096  # of a description
MAX_SHOWN_BYTES = 32_768  # of parameters; longer ones are not shown, but still enforced
MAX_ALL_SHOWN_BYTES = 524_288  # of all tools of an agent together; the later ones are shown by name only

CHANNEL = "channel:"  # the prefix of the handler of a tool that sends an agent's messages

LIST_TOOLS_OF_AGENT = """
SELECT t.id, a.name AS adapter_name, x.position, t.name
FROM agent_adapter x
JOIN adapter a ON a.id = x.adapter_id
JOIN tool t ON t.adapter_id = x.adapter_id
WHERE x.agent_id = $1 AND NOT starts_with(t.handler, $2) AND (t.url <> '' OR t.offered IS NULL)
ORDER BY x.position, t.id LIMIT $3
"""

# In the order of the ids, so that the same tools are always shown in full.
DESCRIBE = """
SELECT id, adapter_id, is_enforced, idempotent,
       CASE WHEN total_bytes <= $4 THEN description ELSE '' END AS description,
       CASE WHEN total_bytes <= $4 THEN parameters END AS parameters
FROM (
    SELECT id, adapter_id, is_enforced, idempotent, description, parameters,
           sum(octet_length(to_json(description)::text) + coalesce(octet_length(parameters::text), 0))
               OVER (ORDER BY position) AS total_bytes
    FROM (
        SELECT t.id, t.adapter_id, t.is_enforced, t.idempotent, i.position,
               left(t.description, $2) AS description,
               CASE WHEN octet_length(t.parameters::text) <= $3 THEN t.parameters END AS parameters
        FROM unnest($1::uuid[]) WITH ORDINALITY AS i (id, position) JOIN tool t ON t.id = i.id
    ) shown
) summed
"""

# The first adapter of the agent that has such a tool.
GET_CALLABLE = """
SELECT t.id, t.adapter_id, t.name, t.handler, t.url, t.parameters, t.is_enforced, c.config,
       coalesce(c.approval, t.approval) AS approval,
       coalesce(e.tool_call_secret, '') AS secret, e.id AS template_id, c.id AS config_id,
       coalesce(c.secret_headers, '{}') AS secret_headers, g.organization_id
FROM agent_adapter x
JOIN agent g ON g.id = x.agent_id AND g.deleted_at IS NULL
JOIN tool t ON t.adapter_id = x.adapter_id
LEFT JOIN template e ON e.id = g.template_id
LEFT JOIN adapter_config c ON c.template_id = g.template_id AND c.adapter_id = x.adapter_id
WHERE x.agent_id = $1 AND /* tool */
ORDER BY x.position, t.id LIMIT 1
"""

GET_BY_ID = fill_in(GET_CALLABLE, "/* tool */", "t.id = $2")
GET_BY_HANDLER = fill_in(GET_CALLABLE, "/* tool */", "t.handler = $2")


@dataclass(frozen=True, slots=True)
class ListedTool:
    """A tool that an agent can call; `position` is that of its adapter among the agent's adapters."""

    id: UUID
    adapter_name: str
    position: int
    name: str


@dataclass(frozen=True, slots=True)
class DescribedTool:
    """The description of a tool for a model.

    `parameters` is also None if they are too long to be shown; `is_enforced` is that of `Tool`.
    """

    id: UUID
    adapter_id: UUID
    description: str
    parameters: Any
    is_enforced: bool
    idempotent: bool = False


@dataclass(frozen=True, slots=True)
class CallableTool:
    """Everything that is needed to call a tool for an agent.

    `config` is the config of the adapter for the agent's template, None if there is none; `secret` is the
    template's `tool_call_secret`, which may be blank. `headers` are those whose values are secrets, and
    `missing_secrets` are the names in the adapter config that no secret has. `approval` is that of the
    adapter config, else that of the tool.
    """

    id: UUID
    adapter_id: UUID
    name: str
    handler: str
    url: str
    parameters: Any
    is_enforced: bool
    config: Any = field(repr=False)
    secret: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    missing_secrets: tuple[str, ...] = ()
    approval: Any = "never"


class AgentTools:
    """The tables `tool` and `agent_adapter`, by agent."""

    def __init__(self, pool: Pool, cipher: SecretCipher = NO_ENCRYPTION) -> None:
        self._pool = pool
        self._cipher = cipher
        self._secrets = Secrets(pool, cipher)

    async def list_for_agent(self, agent_id: UUID) -> list[ListedTool]:
        """List the tools for the agent's model by the order of its adapters, the oldest of each first."""
        return await fetch_all(self._pool, ListedTool, LIST_TOOLS_OF_AGENT, agent_id, CHANNEL, MAX_TOOLS)

    async def describe(self, tool_ids: Sequence[UUID]) -> dict[UUID, DescribedTool]:
        """Return the descriptions by id, without ids that name no tool.

        They are not part of the list because they can be long and a call needs only one.
        """
        limits = MAX_SHOWN_CHARACTERS, MAX_SHOWN_BYTES, MAX_ALL_SHOWN_BYTES
        rows = await self._pool.fetch(DESCRIBE, tool_ids, *limits)
        return {row["id"]: from_row(DescribedTool, row) for row in rows}

    async def get(self, agent_id: UUID, tool_id: UUID) -> CallableTool | None:
        """Return the tool; None if the agent does not have it (any more)."""
        return await self._callable(await self._pool.fetchrow(GET_BY_ID, agent_id, tool_id))

    async def get_channel(self, agent_id: UUID, channel: str) -> CallableTool | None:
        """Return the first tool that sends the agent's messages by this channel; None if there is none."""
        return await self._callable(await self._pool.fetchrow(GET_BY_HANDLER, agent_id, CHANNEL + channel))

    async def _callable(self, row: Record | None) -> CallableTool | None:
        if row is None:
            return None
        named: dict[str, str] = decoded(row["secret_headers"])
        values = await self._values(row, frozenset(named.values())) if named else {}
        return from_row(
            CallableTool,
            row,
            config=self._cipher.decrypt_json(row["config"], config_of(row["config_id"])),
            secret=self._cipher.decrypt(row["secret"], tool_call_secret_of(row["template_id"])),
            headers={header: values[name] for header, name in named.items() if name in values},
            missing_secrets=tuple(sorted(set(named.values()) - values.keys())),
            approval=decoded(row["approval"]),
        )

    async def _values(self, row: Record, names: Collection[str]) -> dict[str, str]:
        """Return the secrets of the agent's template, else of its organization, by name."""
        return await self._secrets.get_values(row["organization_id"], row["template_id"], names)
