"""The same request to many supervisors."""

import asyncio
from uuid import UUID

import pytest

from storage.errors import DatabaseUnavailable
from storage.ids import new_id
from supervisors.bulk_requests import CONCURRENT_REQUESTS, CRASHED, UNAVAILABLE, ask_each
from supervisors.clock import SystemClock
from supervisors.engine.messages import StopReply
from supervisors.errors import MailboxFull

AGENTS = [new_id() for _ in range(40)]
MINUTE_SECONDS = 60.0


class Supervisors:
    """Supervisors that answer at the next turn of the loop; some refuse."""

    def __init__(self) -> None:
        self.asked: list[UUID] = []
        self.refusals: dict[UUID, Exception] = {}
        self.at_once = 0
        self.most_at_once = 0

    async def ask(self, agent_id: UUID) -> StopReply:
        self.asked.append(agent_id)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        if agent_id in self.refusals:
            raise self.refusals[agent_id]
        return StopReply.STOPPED


async def test_all_are_asked_in_order_a_few_at_a_time() -> None:
    supervisors = Supervisors()

    result = await ask_each(supervisors.ask, AGENTS, SystemClock(), MINUTE_SECONDS)

    assert supervisors.asked == AGENTS
    assert supervisors.most_at_once == CONCURRENT_REQUESTS
    assert list(result.replies.values()) == [StopReply.STOPPED] * len(AGENTS)
    assert (result.failures, result.rest) == ({}, ())


async def test_refusals_and_crashes_concern_their_agents_only() -> None:
    supervisors = Supervisors()
    supervisors.refusals = {AGENTS[1]: MailboxFull("Too many wait."), AGENTS[2]: KeyError("bug")}

    result = await ask_each(supervisors.ask, AGENTS, SystemClock(), MINUTE_SECONDS)

    assert result.failures == {AGENTS[1]: "Too many wait.", AGENTS[2]: CRASHED}
    assert len(result.replies) == len(AGENTS) - 2


async def test_nobody_is_asked_after_the_time() -> None:
    supervisors = Supervisors()

    result = await ask_each(supervisors.ask, AGENTS, SystemClock(), 0.0)

    assert (supervisors.asked, result.replies) == ([], {})
    assert result.rest == tuple(AGENTS)


async def test_outage_ends_the_requests_and_keeps_their_replies() -> None:
    supervisors = Supervisors()
    supervisors.refusals = {AGENTS[10]: DatabaseUnavailable("gone")}

    result = await ask_each(supervisors.ask, AGENTS, SystemClock(), MINUTE_SECONDS)

    assert result.failures == {AGENTS[10]: UNAVAILABLE}
    assert [*result.replies, *result.rest] == [each for each in AGENTS if each != AGENTS[10]]
    assert result.rest


async def test_outage_from_the_beginning_is_raised() -> None:
    supervisors = Supervisors()
    supervisors.refusals = {agent_id: DatabaseUnavailable("gone") for agent_id in AGENTS}

    with pytest.raises(DatabaseUnavailable):
        await ask_each(supervisors.ask, AGENTS, SystemClock(), MINUTE_SECONDS)
