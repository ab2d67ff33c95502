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
class KeyedRequest:
    """A run request with a key, and the receipt that is stored for it."""

    expected: Receipt = field(default_factory=receipt)

    @property
    def request(self) -> RunRequest:
        return RunRequest(receipt=lambda reply: replace(self.expected, answer=encode(reply)))

    async def answer_in(self, world: World) -> bytes | None:
        stored = await world.storage.receipts.get(self.expected.key)
        return None if stored is None else stored.answer


def encode(reply: RunReply) -> bytes:
    return f"{reply.status} {reply.run}".encode()


@pytest.fixture
async def narrow(pool: Pool) -> AsyncIterator[World]:
    """Open a world with a single run slot."""
    async with open_world(pool, runs={"max_concurrent": 1}) as world:
        yield world


async def request(world: World, agent: Agent, keyed: KeyedRequest) -> str:
    """Return the status of the reply; assert that the receipt holds the same reply."""
    reply: RunReply = await world.ask(agent, keyed.request)
    assert await keyed.answer_in(world) == encode(reply)
    return reply.status


async def test_receipt_of_a_start_has_the_run_id(world: World) -> None:
    scout = await world.agent()
    assert await request(world, scout, KeyedRequest()) == "started"


async def test_receipt_of_a_queued_request_is_stored_each_time(narrow: World) -> None:
    scout, other = await narrow.agent(), await narrow.agent()
    await narrow.start(other)
    assert await request(narrow, scout, KeyedRequest()) == "queued"
    assert await request(narrow, scout, KeyedRequest()) == "queued"


async def test_receipt_of_a_request_while_stopping_is_stored(world: World) -> None:
    scout = await world.agent()
    world.puppets_are_stubborn = True
    puppet = await world.start(scout)
    stop = asyncio.create_task(world.registry.ask(scout.id, StopRequest()))
    await asyncio.sleep(0)
    await world.wait_until_idle()
    assert await request(world, scout, KeyedRequest()) == "queued"
    await puppet.end()
    await stop
    assert len(await world.ledger(scout)) == 2


async def test_reply_without_an_effect_stores_no_receipt(world: World) -> None:
    scout, keyed = await world.agent(), KeyedRequest()
    await world.start(scout)
    reply = await world.ask(scout, keyed.request)
    assert reply.status == "already_running"
    assert not reply.had_effect
    assert await keyed.answer_in(world) is None


async def test_repeated_request_starts_nothing_and_is_no_failure(narrow: World) -> None:
    scout, other, keyed = await narrow.agent(), await narrow.agent(), KeyedRequest()
    await narrow.ask(scout, keyed.request)
    await narrow.puppets[scout.id].end()
    with pytest.raises(AnsweredBefore):
        await narrow.ask(scout, keyed.request)
    assert len(await narrow.ledger(scout)) == 1
    assert (await narrow.state(scout)).failures == 0
    await narrow.start(other)  # its slot is free again
    with pytest.raises(AnsweredBefore):
        await narrow.ask(scout, keyed.request)
    assert (await narrow.state(scout)).run_requested_at is None


async def test_receipt_is_found_after_a_crash(world: World) -> None:
    """Check I3."""
    scout, keyed = await world.agent(), KeyedRequest()
    await world.ask(scout, keyed.request)
    (run,) = await world.ledger(scout)
    await world.restart()
    assert await keyed.answer_in(world) == f"started {run.id}".encode()
