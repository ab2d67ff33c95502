"""Several nodes on one database under load, and a model that notices overlapping runs of an agent."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import aiopg

from tests.acceptance.client import eventually, sign_up
from tests.acceptance.log_lines import line_of, lines_of
from tests.acceptance.process import ServiceProcess
from tests.acceptance.services import Services
from tests.crash.load import OFFLINE, Load
from tests.crash.recording import all_is_kept
from tests.openai_endpoint import Json, Says, clerk, open_endpoint
from tests.patience import PATIENCE_SECONDS

NODES = 3
THINKING_SECONDS = 0.02
MODELS = (OFFLINE, "slow/clerk-")

STATE = "SELECT state FROM node WHERE id = %s"

# Agents with something to do whose row names no living node, though it has been due for a while.
UNATTENDED = """
SELECT s.agent_id::text FROM agent_state s JOIN agent a ON a.id = s.agent_id AND a.deleted_at IS NULL
LEFT JOIN node n ON n.id = s.node_id AND n.state IN ('alive', 'leaving')
WHERE n.id IS NULL AND (
    s.node_id IS NOT NULL OR s.run_id IS NOT NULL OR s.queued_at IS NOT NULL
    OR s.next_due_at < now() - interval '2 seconds'
)
"""

# Runs that a dead node began, or to whose ends it came. Others end the runs of a dead node without one.
RUNS_OF_THE_DEAD = """
SELECT r.id::text, r.outcome, r.started_at, r.ended_at, n.ended_at FROM run r JOIN node n ON n.id = r.node_id
WHERE n.state = 'dead'
    AND (r.started_at > n.ended_at OR r.ended_at > n.ended_at AND r.outcome NOT IN ('interrupted', 'stopped'))
"""


class Watched:
    """A model of which each agent has its own name, so that overlapping calls of an agent are seen."""

    def __init__(self) -> None:
        self.overlaps: list[str] = []
        self._calls: Counter[str] = Counter()

    async def answer(self, body: Json) -> Says:
        """Answer as a clerk does, but so slowly that most faults interrupt a run."""
        model = body["model"]
        self._calls[model] += 1
        if self._calls[model] > 1:
            self.overlaps.append(model)
        try:
            await asyncio.sleep(THINKING_SECONDS)
            return clerk(body)
        finally:
            self._calls[model] -= 1


@dataclass(slots=True)
class Cluster:
    """The nodes, in the order of their addresses in the load."""

    services: Services
    sections: Mapping[str, Mapping[str, Any]]
    nodes: list[ServiceProcess]
    load: Load

    async def kill(self, *victims: int) -> None:
        """Kill nodes; the load goes on to write to their addresses."""
        for index in victims:
            await self.nodes[index].kill()

    async def replace(self, *places: int) -> None:
        """Start a new node in the place of each of these."""
        for index in places:
            self.nodes[index] = await self.services.spawn(**self.sections)
        for index in places:
            self.load.urls[index] = await self.nodes[index].ready()

    async def all_attended(self, within: float = PATIENCE_SECONDS) -> None:
        """Wait until no agent with something to do names a node that does not live, or none."""

        async def look() -> bool | None:
            return await self.query(UNATTENDED) == [] or None

        await eventually(look, "every agent to be attended", within)

    async def until_dead(self, node_id: int, within: float = PATIENCE_SECONDS) -> None:
        """Wait until the others have buried a node."""

        async def look() -> bool | None:
            return await self.query(STATE, node_id) == [("dead",)] or None

        await eventually(look, f"node {node_id} to be buried", within)

    def condemned(self) -> list[str]:
        """Return what the nodes say of those that they have condemned."""
        lines = (line for node in self.nodes for line in lines_of(node))
        return [f"{line['node_id']}: {line['reason']}" for line in lines if line["event"] == "node condemned"]

    async def query(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        url = self.services.database["url"]
        async with aiopg.connect(url) as connection, connection.cursor() as cursor:
            await cursor.execute(sql, parameters)
            rows: list[tuple[Any, ...]] = await cursor.fetchall()
            return rows


async def node_id(node: ServiceProcess) -> int:
    """Return the number under which a node has joined."""
    return int((await line_of(node, event="node joined"))["node_id"])


@asynccontextmanager
async def under_load(
    services: Services,
    session: aiohttp.ClientSession,
    seed: int,
    models: Sequence[str] = MODELS,
    **sections: Mapping[str, Any],
) -> AsyncIterator[Cluster]:
    """Yield nodes to which a load writes while the block lasts, and judge afterwards that all is kept."""
    watched = Watched()
    async with open_endpoint() as endpoint:
        endpoint.otherwise = watched.answer
        sections = {"models.slow": {"base_url": endpoint.url}, **sections}
        nodes = [await services.spawn(**sections) for _ in range(NODES)]
        urls = [await node.ready() for node in nodes]
        load = Load(await sign_up(session, urls[0]), seed, models, spread=urls)
        cluster = Cluster(services, sections, nodes, load)
        async with load.going_on():
            await load.acknowledged(100)
            yield cluster
            await load.acknowledged(100)
        await all_is_kept(load, services)
    assert not watched.overlaps
    assert await cluster.query(RUNS_OF_THE_DEAD) == []
    assert await cluster.query(UNATTENDED) == []
