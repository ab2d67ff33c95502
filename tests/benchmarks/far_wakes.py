"""A message for an agent that another node attends: how much later its run starts than at its own node.

The agents hold a conversation at the first node. Then each gets a message that ends the hold at once, in turn
over the first node and over another one, which has to ring the first.
"""

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import asyncpg

from tests.benchmarks.bench import Bench, Service
from tests.benchmarks.figures import Figure, Result, Unit, percentile, times
from tests.benchmarks.open_loop import Answer
from tests.benchmarks.posts import post_requests
from tests.benchmarks.reminders import STARTED
from tests.benchmarks.requests import NOTIFICATIONS, post_request, send_at_rate

AGENTS, QUICK_AGENTS = 2_000, 100
WINDOW_SECONDS = 300  # longer than all takes
HOLDS_A_SECOND, WAKES_A_SECOND = 100, 40
LATER_P50_MS, LATER_P99_MS = 2.0, 15.0
POLL_SECONDS = 0.1
PATIENCE_SECONDS = 60.0

UNWOKEN = "SELECT count(*) FROM agent_state WHERE last_started_at IS NULL AND agent_id = ANY ($1)"
HOLDING = "SELECT count(*) FROM agent_state WHERE node_id IS NULL AND agent_id = ANY ($1)"


async def measure(bench: Bench) -> Result:
    """Measure from the answer to the start of the run, at the agent's node and at the other one."""
    async with bench.nodes(2) as service:
        client, number = service.client, QUICK_AGENTS if bench.is_quick else AGENTS
        agents = [
            await client.create_agent(name=f"Agent {each}", debounce_window_seconds=WINDOW_SECONDS)
            for each in range(number)
        ]
        ids = [UUID(agent) for agent in agents]
        database = await asyncpg.connect(service.database_url)
        await _hold(service, agents)
        await _until_none(database, HOLDING, ids)
        requests = post_requests(service, agents, "high")
        answers = await send_at_rate(service.server, requests, WAKES_A_SECOND, number / WAKES_A_SECOND)
        await _until_none(database, UNWOKEN, ids)
        started = {row["id"]: row["started_at"].timestamp() for row in await database.fetch(STARTED)}
        await database.close()
    near, far = (_delays_ms(answers[first::2], started) for first in (0, 1))
    later = [percentile(share, far) - percentile(share, near) for share in (0.5, 0.99)]
    figures = [
        Figure("later at another node, p50", later[0], Unit.MS, at_most=LATER_P50_MS),
        Figure("later at another node, p99", later[1], Unit.MS, at_most=LATER_P99_MS),
        *times("POST to the start of the run, same node", near),
        *times("POST to the start of the run, other node", far),
    ]
    return Result("far", f"{number:,} agents that hold, each woken over its own node or another one", figures)


async def _hold(service: Service, agents: Sequence[str]) -> None:
    """Send each agent a message that it holds, over the first node only."""
    message = {"title": "Hello?", "source": "email", "priority": "high"}
    requests = [post_request(NOTIFICATIONS, message | {"agent": each}, service.client) for each in agents]
    first = service.server.alone
    answers = await send_at_rate(first, requests, HOLDS_A_SECOND, len(requests) / HOLDS_A_SECOND)
    if any(answer.status != 201 for answer in answers):
        raise RuntimeError("messages were refused: is the machine busy?")


async def _until_none(database: "asyncpg.Connection[Any]", count: str, agents: Sequence[UUID]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await database.fetchval(count, agents):  # noqa: ASYNC110 -- it happens in another process
            await asyncio.sleep(POLL_SECONDS)


def _delays_ms(answers: Sequence[Answer], started: dict[UUID, float]) -> list[float]:
    """Return the time from when each message was to be sent to the start of the run."""
    sent = ((UUID(answer.id), answer.epoch_seconds - answer.took_seconds) for answer in answers)
    return [1000 * (started[one] - at) for one, at in sent if one in started]
