"""The same request for many agents or messages: a few at a time, for a limited time."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from uuid import UUID

import structlog

from storage.errors import DatabaseUnavailable, NodeEnded
from supervisors.clock import Clock
from supervisors.errors import SupervisorError
from supervisors.tools.arguments import ToolError

log = structlog.get_logger()

CONCURRENT_REQUESTS = 8
UNAVAILABLE = "The database is unavailable."
CRASHED = "An internal error; the log of the service tells more."

Reply = TypeVar("Reply")


@dataclass(slots=True)
class BulkReplies(Generic[Reply]):
    """The replies by id, the refusals by id, and the ids that were not asked for, in their order."""

    replies: dict[UUID, Reply] = field(default_factory=dict)
    failures: dict[UUID, str] = field(default_factory=dict)
    rest: Sequence[UUID] = ()


async def ask_each(
    ask: Callable[[UUID], Awaitable[Reply]], ids: Sequence[UUID], clock: Clock, seconds: float
) -> BulkReplies[Reply]:
    """Ask for one id after the other, CONCURRENT_REQUESTS at a time, and begin none after `seconds`.

    Without a database no further one is asked; raise its error if no reply came before.
    """
    waiting, deadline = deque(ids), clock.monotonic() + seconds
    result, outages = BulkReplies[Reply](), list[Exception]()

    async def ask_next() -> None:
        while waiting and not outages and clock.monotonic() < deadline:
            id_ = waiting.popleft()
            try:
                result.replies[id_] = await ask(id_)
            except (SupervisorError, ToolError) as error:
                result.failures[id_] = str(error)
            except (DatabaseUnavailable, NodeEnded) as error:
                result.failures[id_] = UNAVAILABLE
                outages.append(error)
            except Exception:  # one agent or message never affects another
                log.exception("bulk request crashed", id=str(id_))
                result.failures[id_] = CRASHED

    async with asyncio.TaskGroup() as tasks:
        for _ in range(CONCURRENT_REQUESTS):
            tasks.create_task(ask_next())
    if outages and not result.replies:
        raise outages[0]
    result.rest = tuple(waiting)
    return result
