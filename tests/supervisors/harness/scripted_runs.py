"""Helpers for tests in which an agent runs by a script."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from storage.history.trace_model import Span
from storage.model import Agent, AgentStatus, Run
from storage.notifications.notifications import NewNotification
from storage.postgres.json_values import decoded
from storage.postgres.pool import Pool
from supervisors.engine.messages import OwnedFieldsRequest
from tests.storage.factories import new_notification, stored_spans
from tests.supervisors.scripted_model import Script, Turn
from tests.supervisors.world import World, open_world

SLEEP = ("sleep", "{}")


@asynccontextmanager
async def running(
    pool: Pool, *turns: Turn, agent: dict[str, Any] | None = None, **runs: Any
) -> AsyncIterator[tuple[World, Agent, Script]]:
    """Open a world with an agent that will run by this script."""
    script = Script(*turns)
    async with open_world(pool, model=script, runs=runs) as world:
        yield world, await world.agent(**(agent or {})), script


async def start(world: World, agent: Agent) -> None:
    """Run the agent to the end of its script."""
    await world.ask(agent, OwnedFieldsRequest(status=AgentStatus.RUNNING))


async def start_once(world: World, agent: Agent) -> None:
    """Run the agent to the end of its script; what it leaves uncleared starts no second run."""
    await world.registry.ask(agent.id, OwnedFieldsRequest(status=AgentStatus.RUNNING))
    world.registry.allow_starts(False)
    await world.wait_until_idle()


async def notify(world: World, agent: Agent, title: str, **fields: Any) -> NewNotification:
    """Insert a notification now, without waiting for the registry."""
    new = new_notification(agent.id, title=title, created_at=world.clock.now(), **fields)
    await world.storage.notifications.insert(new, {agent.organization_id})
    return new


async def only_run(world: World, agent: Agent) -> Run:
    [run] = await world.ledger(agent)
    return run


async def spans(world: World, agent: Agent, span_type: str) -> list[Span]:
    all_spans = await stored_spans(world.pool, (await only_run(world, agent)).id)
    return [span for span in all_spans if span.span_type == span_type]


async def metadata(world: World, span: Span) -> dict[str, Any]:
    stored = await world.storage.traces.get_span(span.id)
    assert stored is not None
    metadata: dict[str, Any] = decoded(stored.metadata)
    return metadata


def answers(value: Any) -> Callable[[], Awaitable[Any]]:
    async def answer() -> Any:
        return value

    return answer


def fails(error: BaseException) -> Callable[[], Awaitable[Any]]:
    async def fail() -> Any:
        raise error

    return fail
