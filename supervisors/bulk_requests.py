"""The same request to many supervisors: a few at a time, for a limited time."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic
from uuid import UUID

from storage.errors import DatabaseUnavailable, LeadershipLost
from supervisors.clock import Clock
from supervisors.engine.messages import Reply, Request
from supervisors.errors import SupervisorError

CONCURRENT_REQUESTS = 8
UNAVAILABLE = "The database is unavailable."
CRASHED = "An internal error; the log of the service tells more."

Ask = Callable[[UUID, Request[Reply]], Awaitable[Reply]]


@dataclass(slots=True)
class BulkReplies(Generic[Reply]):
    """The replies by agent, the refusals by agent, and the agents that were not asked, in their order."""

    replies: dict[UUID, Reply] = field(default_factory=dict)
    failures: dict[UUID, str] = field(default_factory=dict)
    rest: Sequence[UUID] = ()


async def ask_each(
    ask: Ask[Reply], agent_ids: Sequence[UUID], request: Request[Reply], clock: Clock, seconds: float
) -> BulkReplies[Reply]:
    """Ask the supervisors one after the other, CONCURRENT_REQUESTS at a time, and begin none after `seconds`.

    Without a database no further one is asked; raise its error if no reply came before.
    """
    waiting, deadline = deque(agent_ids), clock.monotonic() + seconds
    result, outages = BulkReplies[Reply](), list[Exception]()

    async def ask_next() -> None:
        while waiting and not outages and clock.monotonic() < deadline:
            agent_id = waiting.popleft()
            try:
                result.replies[agent_id] = await ask(agent_id, request)
            except SupervisorError as error:
                result.failures[agent_id] = str(error)
            except (DatabaseUnavailable, LeadershipLost) as error:
                result.failures[agent_id] = UNAVAILABLE
                outages.append(error)
            except Exception:  # the supervisor has logged its crash; one agent never affects another
                result.failures[agent_id] = CRASHED

    async with asyncio.TaskGroup() as tasks:
        for _ in range(CONCURRENT_REQUESTS):
            tasks.create_task(ask_next())
    if outages and not result.replies:
        raise outages[0]
    result.rest = tuple(waiting)
    return result
