"""Agents' states, high notifications for them, and updates that start or end a run."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from uuid import UUID

import asyncpg

from storage.agent_facts import AgentFacts, AgentState, RunEnd, RunStart, StateUpdate
from storage.agents.state import AgentStates
from storage.ids import new_id
from storage.model import Agent, AgentStatus, Outcome
from storage.notifications.notifications import Notifications
from storage.postgres.pool import Pool
from tests.storage.factories import HOUR, MINUTE, NOW, new_notification


async def get_facts(states: AgentStates, of: Agent) -> AgentFacts:
    facts = await states.get_facts(of.id, NOW)
    assert facts is not None
    return facts


async def insert_high(pool: Pool, at: Agent, **fields: Any) -> UUID:
    """Store a high notification and return its id."""
    queue = Notifications(pool, lambda _: None, sleep=asyncio.sleep)
    new = new_notification(at.id, **fields)
    await queue.insert(new, {at.organization_id})
    return new.id


def end_update(before: AgentState) -> StateUpdate:
    after = replace(
        before, status=AgentStatus.SLEEPING, run_id=None, run_started_at=None, last_ended_at=NOW + MINUTE
    )
    assert before.run_id is not None
    end = RunEnd(before.run_id, Outcome.SLEPT, NOW + MINUTE, 3, "")
    return StateUpdate(before, after, guarded=True, end=end)


async def started_state(states: AgentStates, agent: Agent) -> AgentState:
    """Start a run and return the agent's state after it."""
    before, run_id = (await get_facts(states, agent)).state, new_id()
    after = replace(
        before, status=AgentStatus.RUNNING, run_id=run_id, run_started_at=NOW, last_started_at=NOW
    )
    start = RunStart(run_id, "run_requested", None, NOW + HOUR, NOW, "invoke_agent Scout")
    assert await states.update(StateUpdate(before, after, guarded=False, start=start))
    return (await get_facts(states, agent)).state


def guarded_update(before: AgentState, **fields: Any) -> StateUpdate:
    return StateUpdate(before, replace(before, **fields), guarded=True)


@asynccontextmanager
async def locked_by_another_program(database_url: str, *agents: Agent) -> AsyncIterator[None]:
    """Hold the agents' rows, as another program could, until the block ends."""
    connection = await asyncpg.connect(database_url)
    async with connection.transaction():
        ids = [agent.id for agent in agents]
        await connection.execute("SELECT 1 FROM agent_state WHERE agent_id = ANY($1::uuid[]) FOR UPDATE", ids)
        yield
    await connection.close()
