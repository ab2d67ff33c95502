"""Agents to which all nodes write at once: one node at a time may lock a row, and nobody may be refused.

The inserts are measured alone, as each node does them, because HTTP takes more processors than many machines
have; and then as POSTs to four nodes, which also run the agents meanwhile.
"""

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from tempfile import NamedTemporaryFile
from typing import Any
from uuid import UUID

from storage.postgres.migrations import migrate
from storage.postgres.pool import DatabaseSettings, open_pool
from tests.benchmarks.bench import Bench
from tests.benchmarks.figures import Figure, Result, Unit, times
from tests.benchmarks.posts import post_requests
from tests.benchmarks.requests import send_at_rate
from tests.storage.factories import stored_agent

NODES = 4
MESSAGES, QUICK_MESSAGES = 10_000, 2_000
HOT_AGENTS = (1, 20)
INSERTS_BAR = 8_000
P99_BAR_MS = 60.0
POSTS_A_SECOND = 200
POST_ROUNDS = 5  # the POSTs go on for as long as so many rounds of other rows


async def measure(bench: Bench) -> Result:
    """Measure inserts for one agent and for twenty, and then POSTs for them."""
    messages, figures = QUICK_MESSAGES if bench.is_quick else MESSAGES, []
    async with bench.database() as database:
        await migrate(database.url)
        async with open_pool(DatabaseSettings(database.url), node=None) as pool:
            agents = [await stored_agent(pool) for _ in range(max(HOT_AGENTS))]
        for count in HOT_AGENTS:
            owners = {agent.id: agent.organization_id for agent in agents[:count]}
            figures += _insert_figures(count, await _insert(database.url, messages, owners))
    async with bench.nodes(NODES) as service:
        for count in HOT_AGENTS:
            requests = post_requests(service, await service.create_agents(count), "high")
            seconds = POST_ROUNDS * bench.pace.seconds
            answers = await send_at_rate(service.server, requests, POSTS_A_SECOND, seconds)
            posts = [1000 * answer.took_seconds for answer in answers]
            refused = sum(answer.status != 201 for answer in answers)
            name = f"{POSTS_A_SECOND} POSTs a second for {count}"
            figures += [*times(name, posts), Figure(f"{name}, refused", refused, Unit.COUNT, at_most=0)]
    return Result("hot", f"{messages:,} messages for one agent, and for twenty, over {NODES} nodes", figures)


async def _insert(url: str, messages: int, owners: Mapping[UUID, UUID]) -> Sequence[dict[str, Any]]:
    """Have four processes insert at once, and return what each has seen."""
    given = json.dumps({str(agent): str(owner) for agent, owner in owners.items()}).encode() + b"\n"
    ready = asyncio.Barrier(NODES)

    async def insert_part() -> dict[str, Any]:
        with NamedTemporaryFile() as output:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.benchmarks.hot_inserts"),
                *(url, str(messages // NODES), output.name),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(given)
            await process.stdout.readline()
            await ready.wait()
            await process.communicate(b"\n")
            return dict(json.load(output))

    return await asyncio.gather(*(insert_part() for _ in range(NODES)))


def _insert_figures(agents: int, parts: Sequence[dict[str, Any]]) -> list[Figure]:
    took = [1000 * seconds for part in parts for seconds in part["took"]]
    refused = [reason for part in parts for reason in part["refused"]]
    seconds = max(part["seconds"] for part in parts)
    name, many = f"inserts for {agents}", agents > 1
    return [
        Figure(f"{name}: rate", len(took) / seconds, Unit.PER_SECOND, at_least=None if many else INSERTS_BAR),
        *times(name, took, p99_at_most=P99_BAR_MS if many else None),
        Figure(f"{name}, refused", len(refused), Unit.COUNT, at_most=0),
    ]
