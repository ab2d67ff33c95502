"""The tools that agents have by their adapters, as models are shown them and as they are called.

Configs and secrets are read for the call of one tool only: they may be long, and are nobody else's business.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from asyncpg import Record

from storage.postgres.pool import Pool
from storage.postgres.rows import from_row

MAX_TOOLS = 120  # of one agent: providers of models take 128, and every agent has some without adapters
MAX_SHOWN_CHARACTERS = 4096  # of a description
MAX_SHOWN_BYTES = 32_768  # of parameters; longer ones are enforced all the same

CHANNEL = "channel:"  # begins the handler of a tool that takes an agent's messages further

LIST = """
SELECT t.id, a.name AS adapter_name, x.position, t.name
FROM agent_adapter x
JOIN adapter a ON a.id = x.adapter_id
JOIN tool t ON t.adapter_id = x.adapter_id
WHERE x.agent_id = $1 AND NOT starts_with(t.handler, $2)
ORDER BY x.position, t.id LIMIT $3
"""

DESCRIBE = """
SELECT id, adapter_id, is_enforced, left(description, $2) AS description,
       CASE WHEN octet_length(parameters::text) <= $3 THEN parameters END AS parameters
FROM tool WHERE id = ANY ($1::uuid[])
"""

GET = """
SELECT t.adapter_id, t.name, t.handler, t.url, t.parameters, t.is_enforced, c.config,
       coalesce(e.tool_call_secret, '') AS secret
FROM agent_adapter x
JOIN agent g ON g.id = x.agent_id AND g.deleted_at IS NULL
JOIN tool t ON t.adapter_id = x.adapter_id
LEFT JOIN template e ON e.id = g.template_id
LEFT JOIN adapter_config c ON c.template_id = g.template_id AND c.adapter_id = x.adapter_id
WHERE x.agent_id = $1 AND t.id = $2
"""

GET_CHANNEL = """
SELECT t.adapter_id, t.name, t.handler, t.url, t.parameters, t.is_enforced, c.config,
       coalesce(e.tool_call_secret, '') AS secret
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
    """A tool that an agent can call. `position` is its adapter's among the agent's."""

    id: UUID
    adapter_name: str
    position: int
    name: str


@dataclass(frozen=True, slots=True)
class DescribedTool:
    """What a model is told of a tool.

    `parameters` is None as well where they are too long to be shown to a model; `is_enforced` as in `Tool`.
    """

    id: UUID
    adapter_id: UUID
    description: str
    parameters: Any
    is_enforced: bool


@dataclass(frozen=True, slots=True)
class CallableTool:
    """What it takes to call a tool for an agent.

    `config` is what the agent's template has for the adapter, None where it has none; `secret` the template's
    `tool_call_secret`, which may be blank.
    """

    adapter_id: UUID
    name: str
    handler: str
    url: str
    parameters: Any
    is_enforced: bool
    config: Any = field(repr=False)
    secret: str = field(repr=False)


class AgentTools:
    """The tables `tool` and `agent_adapter`, by agent."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def list_for_agent(self, agent_id: UUID) -> list[ListedTool]:
        """Those for the agent's model, in the order of its adapters, and of each the oldest first."""
        rows = await self._pool.fetch(LIST, agent_id, CHANNEL, MAX_TOOLS)
        return [from_row(ListedTool, row) for row in rows]

    async def describe(self, tool_ids: Collection[UUID]) -> dict[UUID, DescribedTool]:
        """Those that there are, by id. Apart from the list, as it can be long and a call needs but one."""
        rows = await self._pool.fetch(DESCRIBE, tool_ids, MAX_SHOWN_CHARACTERS, MAX_SHOWN_BYTES)
        return {row["id"]: from_row(DescribedTool, row) for row in rows}

    async def get(self, agent_id: UUID, tool_id: UUID) -> CallableTool | None:
        """None if the agent has it not, or not any more."""
        return _callable(await self._pool.fetchrow(GET, agent_id, tool_id))

    async def get_channel(self, agent_id: UUID, channel: str) -> CallableTool | None:
        """What takes the agent's messages further by this channel; the first, if there are several."""
        return _callable(await self._pool.fetchrow(GET_CHANNEL, agent_id, CHANNEL + channel))


def _callable(row: Record | None) -> CallableTool | None:
    return None if row is None else from_row(CallableTool, row)
