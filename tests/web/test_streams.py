"""Streams: their number, and whose turn it is."""

import asyncio
from contextlib import ExitStack
from uuid import UUID

import pytest

from storage.ids import new_id
from web.errors import TooManyRequests, Unavailable
from web.streams import RETRY_SECONDS, Streams

OURS, THEIRS = new_id(), new_id()


def test_caller_has_limited_streams() -> None:
    streams, caller, colleague = Streams(per_caller=2, per_organization=9), new_id(), new_id()
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(streams.open(caller, OURS))
        stack.enter_context(streams.open(colleague, OURS))
        with pytest.raises(TooManyRequests) as refusal, streams.open(caller, OURS):
            pass
        assert refusal.value.body["detail"].startswith("limits.streams_per_caller: at most 2 long lists")
        assert refusal.value.headers == {"Retry-After": str(RETRY_SECONDS)}
        assert (streams.in_use(OURS), streams.in_use(THEIRS)) == (3, 0)
    assert streams.in_use(OURS) == 0
    with streams.open(caller, OURS):
        assert streams.in_use(OURS) == 1


def test_organization_has_limited_streams() -> None:
    streams = Streams(per_caller=9, per_organization=1)
    with (
        streams.open(new_id(), OURS),
        streams.open(new_id(), THEIRS),
        pytest.raises(TooManyRequests, match=r"limits\.streams: at most 1"),
        streams.open(new_id(), OURS),
    ):
        pass


async def wait_in_line(streams: Streams, owner: UUID, name: str, order: list[str]) -> "asyncio.Task[None]":
    async def take() -> None:
        async with streams.turn(owner):
            order.append(name)

    task = asyncio.create_task(take())
    await asyncio.sleep(0)
    return task


async def test_organizations_take_turns() -> None:
    streams, order = Streams(1, 1, turns=1), list[str]()
    async with streams.turn(OURS):
        tasks = [await wait_in_line(streams, OURS, f"ours {n}", order) for n in range(3)]
        tasks += [await wait_in_line(streams, THEIRS, f"theirs {n}", order) for n in range(2)]
    await asyncio.gather(*tasks)

    assert order == ["ours 0", "theirs 0", "ours 1", "theirs 1", "ours 2"]


async def test_turn_of_cancelled_caller_passes_on() -> None:
    streams, order = Streams(1, 1, turns=1), list[str]()
    async with streams.turn(OURS):
        gone = await wait_in_line(streams, OURS, "gone", order)
        late = await wait_in_line(streams, OURS, "late", order)
        next_one = await wait_in_line(streams, THEIRS, "next", order)
        gone.cancel()
        await asyncio.sleep(0)
    late.cancel()  # in the moment in which its turn comes
    await next_one
    async with streams.turn(OURS):
        assert order == ["next"]


async def test_organization_leaves_turns_to_others() -> None:
    streams, order = Streams(1, 1, turns=4), list[str]()
    async with streams.turn(OURS):
        async with streams.turn(OURS):
            third = await wait_in_line(streams, OURS, "third", order)
            await (await wait_in_line(streams, THEIRS, "theirs", order))
            assert order == ["theirs"]
        await third
    assert order == ["theirs", "third"]


async def test_organization_with_too_many_waiting_chunks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("web.streams.MAX_WAITING", 1)
    streams, order = Streams(1, 1, turns=1), list[str]()
    async with streams.turn(OURS):
        waiting = await wait_in_line(streams, OURS, "waiting", order)
        with pytest.raises(Unavailable):
            async with streams.turn(OURS):
                order.append("refused")
        theirs = await wait_in_line(streams, THEIRS, "theirs", order)
    await asyncio.gather(waiting, theirs)
    assert order == ["waiting", "theirs"]
