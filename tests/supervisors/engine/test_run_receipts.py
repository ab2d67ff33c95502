"""Run requests with an idempotency key: the receipt is stored together with the request's effect."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

import pytest

from storage.errors import AnsweredBefore
from storage.model import Agent, Receipt
from storage.postgres.pool import Pool
from supervisors.engine.messages import RunReply, RunRequest, StopRequest
from tests.storage.factories import receipt
from tests.supervisors.world import World, open_world


@dataclass
class PendingRequest:
    """A run request with a key, and the receipt that is stored for it."""

    kept: Receipt = field(default_factory=receipt)

    @property
    def request(self) -> RunRequest:
        return RunRequest(receipt=lambda reply: replace(self.kept, answer=shown(reply)))

    async def answer_in(self, world: World) -> bytes | None:
        found = await world.storage.receipts.get(self.kept.key)
        return None if found is None else found.answer


def shown(reply: RunReply) -> bytes:
    return f"{reply.status} {reply.run}".encode()


@pytest.fixture
async def narrow(pool: Pool) -> AsyncIterator[World]:
    """Open a world with a single run slot."""
    async with open_world(pool, runs={"max_concurrent": 1}) as world:
        yield world


async def request(world: World, agent: Agent, asked: PendingRequest) -> str:
    """Return the status of the reply; assert that the receipt holds the same reply."""
    reply: RunReply = await world.ask(agent, asked.request)
    assert await asked.answer_in(world) == shown(reply)
    return reply.status


async def test_receipt_of_a_start_has_the_run_id(world: World) -> None:
    scout = await world.agent()
    assert await request(world, scout, PendingRequest()) == "started"


async def test_receipt_of_a_queued_request_is_stored_each_time(narrow: World) -> None:
    scout, other = await narrow.agent(), await narrow.agent()
    await narrow.start(other)
    assert await request(narrow, scout, PendingRequest()) == "queued"
    assert await request(narrow, scout, PendingRequest()) == "queued"


async def test_receipt_of_a_request_while_stopping_is_stored(world: World) -> None:
    scout = await world.agent()
    world.puppets_are_stubborn = True
    puppet = await world.start(scout)
    stop = asyncio.create_task(world.registry.ask(scout.id, StopRequest()))
    await asyncio.sleep(0)
    await world.quiet()
    assert await request(world, scout, PendingRequest()) == "queued"
    await puppet.end()
    await stop
    assert len(await world.ledger(scout)) == 2


async def test_reply_without_an_effect_stores_no_receipt(world: World) -> None:
    scout, asked = await world.agent(), PendingRequest()
    await world.start(scout)
    reply = await world.ask(scout, asked.request)
    assert reply.status == "already_running"
    assert not reply.had_effect
    assert await asked.answer_in(world) is None


async def test_repeated_request_starts_nothing_and_is_no_failure(narrow: World) -> None:
    scout, other, asked = await narrow.agent(), await narrow.agent(), PendingRequest()
    await narrow.ask(scout, asked.request)
    await narrow.puppets[scout.id].end()
    with pytest.raises(AnsweredBefore):
        await narrow.ask(scout, asked.request)
    assert len(await narrow.ledger(scout)) == 1
    assert (await narrow.state(scout)).failures == 0
    await narrow.start(other)  # its slot is free again
    with pytest.raises(AnsweredBefore):
        await narrow.ask(scout, asked.request)
    assert (await narrow.state(scout)).run_requested_at is None


async def test_receipt_is_found_after_a_crash(world: World) -> None:
    """Check I3."""
    scout, asked = await world.agent(), PendingRequest()
    await world.ask(scout, asked.request)
    (run,) = await world.ledger(scout)
    await world.restart()
    assert await asked.answer_in(world) == f"started {run.id}".encode()
