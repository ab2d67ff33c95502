"""The tools that agents have by their adapters, as models are shown them and as they are called.

Configs and secrets are read for the call of one tool only: they may be long, and are nobody else's business.
"""

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from asyncpg import Record

from storage.pool import Pool
from storage.rows import from_row

MOST_TOOLS = 120  # of one agent: providers of models take 128, and every agent has some without adapters
MOST_SHOWN_CHARACTERS = 4096  # of a description
MOST_SHOWN_BYTES = 32_768  # of parameters; longer ones are enforced all the same

CHANNEL = "channel:"  # begins the handler of a tool that takes an agent's messages further

LIST_NAMES = """
SELECT t.id, a.name AS adapter_name, x.position, t.name
FROM agent_adapter x
JOIN adapter a ON a.id = x.adapter_id
JOIN tool t ON t.adapter_id = x.adapter_id
WHERE x.agent_id = $1 AND NOT starts_with(t.handler, $2)
ORDER BY x.position, t.id LIMIT $3
"""

LIST = """
SELECT t.id, t.adapter_id, a.name AS adapter_name, x.position, t.name, t.is_enforced,
       left(t.description, $2) AS description,
       CASE WHEN octet_length(t.parameters::text) <= $3 THEN t.parameters END AS parameters
FROM agent_adapter x
JOIN adapter a ON a.id = x.adapter_id
JOIN tool t ON t.adapter_id = x.adapter_id
WHERE x.agent_id = $1 AND NOT starts_with(t.handler, $4)
ORDER BY x.position, t.id LIMIT $5
"""

GET = """
SELECT t.adapter_id, t.name, left(t.description, $3) AS description, t.handler, t.url, t.parameters,
       t.is_enforced, c.config, coalesce(e.tool_call_secret, '') AS secret
FROM agent_adapter x
JOIN agent g ON g.id = x.agent_id AND g.deleted_at IS NULL
JOIN tool t ON t.adapter_id = x.adapter_id
LEFT JOIN template e ON e.id = g.template_id
LEFT JOIN adapter_config c ON c.template_id = g.template_id AND c.adapter_id = x.adapter_id
WHERE x.agent_id = $1 AND t.id = $2
"""

GET_CHANNEL = """
SELECT t.adapter_id, t.name, left(t.description, $3) AS description, t.handler, t.url, t.parameters,
       t.is_enforced, c.config, coalesce(e.tool_call_secret, '') AS secret
FROM agent_adapter x
JOIN agent g ON g.id = x.agent_id AND g.deleted_at IS NULL
JOIN tool t ON t.adapter_id = x.adapter_id
LEFT JOIN template e ON e.id = g.template_id
LEFT JOIN adapter_config c ON c.template_id = g.template_id AND c.adapter_id = x.adapter_id
WHERE x.agent_id = $1 AND t.handler = $2
ORDER BY x.position, t.id LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class NamedTool:
    """A tool that an agent can call, and its place among them. `position` is its adapter's at the agent."""

    id: UUID
    adapter_name: str
    position: int
    name: str


@dataclass(frozen=True, slots=True)
class ListedTool(NamedTool):
    """What a model is told of a tool.

    `parameters` is None as well where they are too long to be shown to a model; `is_enforced` as in `Tool`.
    """

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
    description: str
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

    async def list_names(self, agent_id: UUID) -> list[NamedTool]:
        """The same as `list_for_agent`, without all that can be long."""
        rows = await self._pool.fetch(LIST_NAMES, agent_id, CHANNEL, MOST_TOOLS)
        return [from_row(NamedTool, row) for row in rows]

    async def list_for_agent(self, agent_id: UUID) -> list[ListedTool]:
        """Those for the agent's model, in the order of its adapters, and of each the oldest first."""
        rows = await self._pool.fetch(
            LIST, agent_id, MOST_SHOWN_CHARACTERS, MOST_SHOWN_BYTES, CHANNEL, MOST_TOOLS
        )
        return [from_row(ListedTool, row) for row in rows]

    async def get(self, agent_id: UUID, tool_id: UUID) -> CallableTool | None:
        """None if the agent has it not, or not any more."""
        return _callable(await self._pool.fetchrow(GET, agent_id, tool_id, MOST_SHOWN_CHARACTERS))

    async def get_channel(self, agent_id: UUID, channel: str) -> CallableTool | None:
        """What takes the agent's messages further by this channel; the first, if there are several."""
        handler = CHANNEL + channel
        return _callable(await self._pool.fetchrow(GET_CHANNEL, agent_id, handler, MOST_SHOWN_CHARACTERS))


def _callable(row: Record | None) -> CallableTool | None:
    return None if row is None else from_row(CallableTool, row)
