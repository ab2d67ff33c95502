"""Agent tools: the tools that an agent has through its adapters, as shown to a model and as called.

Configs and secrets are read only to call one tool: they may be long, and nothing else needs them.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from asyncpg import Record

from storage.agents.secrets import Secrets
from storage.encryption import NO_ENCRYPTION, SecretCipher, config_of, tool_call_secret_of
from storage.postgres.json_values import decoded
from storage.postgres.pool import Pool
from storage.postgres.rows import fetch_all, from_row

MAX_TOOLS = 100  # of the adapters of one agent: model providers accept 128 with the built-in tools
MAX_SHOWN_CHARACTERS = 4096  # of a description
MAX_SHOWN_BYTES = 32_768  # of parameters; longer ones are not shown, but still enforced
MAX_ALL_SHOWN_BYTES = 524_288  # of all tools of an agent together; the later ones are shown by name only

CHANNEL = "channel:"  # the prefix of the handler of a tool that sends an agent's messages

LIST = """
SELECT t.id, a.name AS adapter_name, x.position, t.name
FROM agent_adapter x
JOIN adapter a ON a.id = x.adapter_id
JOIN tool t ON t.adapter_id = x.adapter_id
WHERE x.agent_id = $1 AND NOT starts_with(t.handler, $2)
ORDER BY x.position, t.id LIMIT $3
"""

# In the order of the ids, so that the same tools are always shown in full.
DESCRIBE = """
SELECT id, adapter_id, is_enforced,
       CASE WHEN total_bytes <= $4 THEN description ELSE '' END AS description,
       CASE WHEN total_bytes <= $4 THEN parameters END AS parameters
FROM (
    SELECT id, adapter_id, is_enforced, description, parameters,
           sum(octet_length(to_json(description)::text) + coalesce(octet_length(parameters::text), 0))
               OVER (ORDER BY position) AS total_bytes
    FROM (
        SELECT t.id, t.adapter_id, t.is_enforced, i.position, left(t.description, $2) AS description,
               CASE WHEN octet_length(t.parameters::text) <= $3 THEN t.parameters END AS parameters
        FROM unnest($1::uuid[]) WITH ORDINALITY AS i (id, position) JOIN tool t ON t.id = i.id
    ) shown
) summed
"""

GET = """
SELECT t.adapter_id, t.name, t.handler, t.url, t.parameters, t.is_enforced, c.config,
       coalesce(e.tool_call_secret, '') AS secret, e.id AS template_id, c.id AS config_id,
       coalesce(c.secret_headers, '{}') AS secret_headers, g.organization_id
FROM agent_adapter x
JOIN agent g ON g.id = x.agent_id AND g.deleted_at IS NULL
JOIN tool t ON t.adapter_id = x.adapter_id
LEFT JOIN template e ON e.id = g.template_id
LEFT JOIN adapter_config c ON c.template_id = g.template_id AND c.adapter_id = x.adapter_id
WHERE x.agent_id = $1 AND t.id = $2
"""

GET_CHANNEL = """
SELECT t.adapter_id, t.name, t.handler, t.url, t.parameters, t.is_enforced, c.config,
       coalesce(e.tool_call_secret, '') AS secret, e.id AS template_id, c.id AS config_id,
       coalesce(c.secret_headers, '{}') AS secret_headers, g.organization_id
FROM agent_adapter x
JOIN agent g ON g.id = x.agent_id AND g.deleted_at IS NULL
JOIN tool t ON t.adapter_id = x.adapter_id
LEFT JOIN template e ON e.id = g.template_id
LEFT JOIN adapter_config c ON c.template_id = g.template_id AND c.adapter_id = x.adapter_id
WHERE x.agent_id = $1 AND t.handler = $2
ORDER BY x.position, t.id LIMIT 1
"""


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


@dataclass(frozen=True, slots=True)
class CallableTool:
    """Everything that is needed to call a tool for an agent.

    `config` is the config of the adapter for the agent's template, None if there is none; `secret` is the
    template's `tool_call_secret`, which may be blank. `headers` are those whose values are secrets, and
    `missing_secrets` are the names in the adapter config that no secret has.
    """

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


class AgentTools:
    """The tables `tool` and `agent_adapter`, by agent."""

    def __init__(self, pool: Pool, cipher: SecretCipher = NO_ENCRYPTION) -> None:
        self._pool = pool
        self._cipher = cipher
        self._secrets = Secrets(pool, cipher)

    async def list_for_agent(self, agent_id: UUID) -> list[ListedTool]:
        """List the tools for the agent's model by the order of its adapters, the oldest of each first."""
        return await fetch_all(self._pool, ListedTool, LIST, agent_id, CHANNEL, MAX_TOOLS)

    async def describe(self, tool_ids: Sequence[UUID]) -> dict[UUID, DescribedTool]:
        """Return the descriptions by id, without ids that name no tool.

        They are not part of the list because they can be long and a call needs only one.
        """
        limits = MAX_SHOWN_CHARACTERS, MAX_SHOWN_BYTES, MAX_ALL_SHOWN_BYTES
        rows = await self._pool.fetch(DESCRIBE, tool_ids, *limits)
        return {row["id"]: from_row(DescribedTool, row) for row in rows}

    async def get(self, agent_id: UUID, tool_id: UUID) -> CallableTool | None:
        """Return the tool; None if the agent does not have it (any more)."""
        return await self._callable(await self._pool.fetchrow(GET, agent_id, tool_id))

    async def get_channel(self, agent_id: UUID, channel: str) -> CallableTool | None:
        """Return the first tool that sends the agent's messages by this channel; None if there is none."""
        return await self._callable(await self._pool.fetchrow(GET_CHANNEL, agent_id, CHANNEL + channel))

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
        )

    async def _values(self, row: Record, names: Collection[str]) -> dict[str, str]:
        """Return the secrets of the agent's template, else of its organization, by name."""
        return await self._secrets.get_values(row["organization_id"], row["template_id"], names)
