"""Nodes on a database of their own, and how soon the agents of one act after something happens to it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import aiopg

from tests.acceptance.client import Client, eventually, moment
from tests.acceptance.services import Services

AGENTS = 5
WINDOW_SECONDS = 300  # longer than any failure is noticed
REMINDER = timedelta(seconds=2)

LIVING = """
SELECT id, facts->>'url', split_part(process, '/', -2)::integer FROM node
WHERE state = 'alive' AND facts->>'url' <> '' ORDER BY id
"""
ATTENDANTS = """
SELECT agent_id::text, node_id FROM agent_state
WHERE node_id IS NOT NULL AND agent_id = ANY (%s::uuid[]) ORDER BY agent_id
"""
STARTS = "SELECT last_started_at FROM agent_state WHERE agent_id = ANY (%s::uuid[])"


@dataclass(frozen=True, slots=True)
class Node:
    """A living node, and the address at which only it answers."""

    id: int
    url: str
    pid: int


@dataclass(frozen=True, slots=True)
class Ground:
    """Nodes on one database, and a client."""

    services: Services
    client: Client

    async def living(self, count: int) -> Sequence[Node]:
        """Wait until there are this many nodes, and return them, the newest last."""

        async def look() -> Sequence[Node] | None:
            nodes = [Node(*row) for row in await self.query(LIVING)]
            return nodes if len(nodes) == count else None

        return await eventually(look, f"{count} living nodes")

    async def acting_again(
        self, victim: Node, other: Node, fail: Callable[[], object] = lambda: None
    ) -> float:
        """Return how many seconds after a failure of the victim all of its agents have started."""
        agents = await self._holding(victim)
        failed_at = datetime.now(UTC)
        fail()
        for agent in agents:
            await self.client.at(other.url).notify(agent)
        return max((at - failed_at).total_seconds() for at in await self._starts(agents))

    async def reminded(self, node: Node) -> float:
        """Return by how many seconds the latest of some reminders is late that are set at this node."""
        agents, due = await self._create_agents(node), dict[str, datetime]()
        for agent in agents:
            at = datetime.now(UTC) + REMINDER
            note = await self.client.at(node.url).notify(agent, scheduled_for=at.isoformat())
            due[agent] = moment(note["scheduled_for"])
        starts = await self._starts(agents)
        return max((at - due[agent]).total_seconds() for agent, at in zip(agents, starts, strict=True))

    async def query(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        url = self.services.database["url"]
        async with aiopg.connect(url) as connection, connection.cursor() as cursor:
            await cursor.execute(sql, parameters or None)
            return list(await cursor.fetchall()) if cursor.description else []

    async def _holding(self, node: Node) -> list[str]:
        """Return new agents that hold a message at this node; on a busy machine another may take some."""
        agents = await self._create_agents(node)
        for agent in agents:
            await self.client.at(node.url).notify(agent, source="email")

        async def look() -> list[str] | None:
            rows = await self.query(ATTENDANTS, agents)
            return (
                [agent for agent, attendant in rows if attendant == node.id] if len(rows) == AGENTS else None
            )

        return await eventually(look, f"agents to hold messages at node {node.id}")

    async def _create_agents(self, node: Node) -> list[str]:
        client = self.client.at(node.url)
        made = [await client.create_agent(debounce_window_seconds=WINDOW_SECONDS) for _ in range(AGENTS)]
        return sorted(made, key=UUID)

    async def _starts(self, agents: Sequence[str]) -> list[datetime]:
        """Wait until all of these agents have started, and return when, in the order of their ids."""

        async def look() -> list[datetime] | None:
            rows = await self.query(f"{STARTS} ORDER BY agent_id", agents)
            return None if (None,) in rows else [at for (at,) in rows]

        return await eventually(look, "all agents to start")
