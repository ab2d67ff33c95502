"""The room for requests in flight: its bound, its shares, and what is refused without any effect."""

import asyncio
import gzip
from contextlib import ExitStack, suppress
from uuid import UUID, uuid4

import pytest

from storage.ids import new_id
from storage.postgres.pool import Pool
from tests.web.conftest import Api, Service
from web.app_keys import ROOM
from web.errors import Unavailable
from web.request_room import (
    BYTES_OF_UNIT,
    LIST_UNITS,
    READ_UNITS,
    UNITS,
    WRITE_UNITS,
    RequestRoom,
    body_units,
)

A, B = UUID(int=1), UUID(int=2)
AGENTS = "/api/cloud/agents/"
NOTIFICATIONS = "/api/defaults/notifications/"
BUSY = {"detail": "The service is busy; nothing of this request was done."}
COMPRESSED = {"Content-Type": "application/json", "Content-Encoding": "gzip"}


async def wait_for_units(room: RequestRoom, units: int) -> None:
    """Wait until so many units are taken."""
    while f" {units} units taken" not in repr(room):  # noqa: ASYNC110 -- nothing signals it
        await asyncio.sleep(0)


def test_organization_alone_has_half_of_the_room() -> None:
    room = RequestRoom(units=8)
    places = [room.enter(A, 1) for _ in range(4)]
    with pytest.raises(Unavailable) as refused:
        room.enter(A, 1)
    assert refused.value.headers == {"Retry-After": "1"}
    places += [room.enter(B, 1), room.enter(B, 1)]
    with pytest.raises(Unavailable):
        room.enter(B, 1)
    for place in places:
        place.leave()
        place.leave()
    assert repr(room) == "<RequestRoom: 0 units taken, 8 left>"


def test_organization_without_a_request_may_always_send_one() -> None:
    room = RequestRoom(units=4)
    room.enter(A, 4)
    room.enter(B, 4)
    with pytest.raises(Unavailable):
        room.enter(B, 1)


def test_what_is_long_leaves_room_for_short_requests() -> None:
    room = RequestRoom(units=12)
    place = room.enter(A, 1)
    with place.more(3), pytest.raises(Unavailable), place.more(1):
        pass
    with place.more(3):
        room.enter(A, 1).leave()
    assert repr(room) == "<RequestRoom: 1 units taken, 11 left>"
    assert [body_units(size) for size in (1, BYTES_OF_UNIT, BYTES_OF_UNIT + 1)] == [1, 1, 2]


def test_longest_body_finds_room_while_nothing_else_is_in_flight() -> None:
    with RequestRoom().enter(A, WRITE_UNITS).more(body_units(2**30)):
        pass


async def wait_in_line(room: RequestRoom, owner: UUID, order: list[str], name: str) -> "asyncio.Task[None]":
    async def take() -> None:
        async with room.parsing(owner):
            order.append(name)

    task = asyncio.create_task(take())
    await asyncio.sleep(0)
    return task


async def test_organizations_take_turns() -> None:
    room, order = RequestRoom(), list[str]()
    async with room.parsing(A):
        tasks = [await wait_in_line(room, A, order, f"ours {number}") for number in range(3)]
        gone = await wait_in_line(room, B, order, "gone")
        tasks += [await wait_in_line(room, B, order, f"theirs {number}") for number in range(2)]
        gone.cancel()
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    assert order == ["ours 0", "theirs 0", "ours 1", "theirs 1", "ours 2"]


@pytest.mark.one_node
async def test_flood_is_refused_without_effect_and_leaves_room_for_others(
    service: Service, api: Api, other: Api, pool: Pool
) -> None:
    """Lock the table, so that nothing can be committed."""
    agent, theirs = await api.create_agent(), await other.create_agent()
    room, share = service.app[ROOM], 4
    room.enter(new_id(), UNITS - 2 * share * WRITE_UNITS)
    taken = UNITS - share * WRITE_UNITS
    body = {"agent": agent["id"], "title": "Hello", "priority": "high"}
    key = {"Idempotency-Key": str(uuid4())}
    async with pool.transaction() as connection:
        await connection.execute("LOCK TABLE notification IN SHARE MODE")
        flood = [asyncio.create_task(api.post(NOTIFICATIONS, body)) for _ in range(share)]
        await wait_for_units(room, taken)

        refused = await api.post(NOTIFICATIONS, body, headers=key)
        unread = await api.request("POST", NOTIFICATIONS, data=b"{not even JSON")
        modest = asyncio.create_task(other.post(NOTIFICATIONS, {**body, "agent": theirs["id"]}))
        await wait_for_units(room, taken + WRITE_UNITS)
        health = await service.nobody.get("/healthz")

    assert (refused.status, refused.body, refused.headers["Retry-After"]) == (503, BUSY, "1")
    assert (unread.status, unread.body) == (503, BUSY), "the body was read before the refusal"
    assert health.status == 200
    assert [answer.status for answer in await asyncio.gather(*flood, modest)] == [201] * (share + 1)
    assert await pool.fetchval("SELECT count(*) FROM notification") == share + 1

    later = await api.post(NOTIFICATIONS, body, headers=key)
    assert (later.status, later.headers.get("Idempotency-Replayed")) == (201, None)


@pytest.mark.one_node
async def test_body_without_room_is_refused_unread(service: Service, api: Api) -> None:
    place = service.app[ROOM].enter(new_id(), UNITS - WRITE_UNITS - 1)
    short = await api.create_agent()
    long = b'{"name": "' + b"x" * 40_000 + b'"}'
    for headers, data in (({}, long), (COMPRESSED, gzip.compress(b'{"name": "x"}'))):
        answer = await api.request("POST", AGENTS, data=data, headers=headers)
        assert (answer.status, answer.body) == (503, BUSY)
    assert short["name"] == "Ann"
    place.leave()
    body = gzip.compress(b'{"name": "Ann", "model": "m"}')
    assert (await api.request("POST", AGENTS, data=body, headers=COMPRESSED)).status == 201


def test_long_requests_leave_a_quarter_to_short_ones() -> None:
    """Otherwise clients who read slowly, in a few organizations, would leave others one request at a time."""
    room = RequestRoom()
    with ExitStack() as lists:
        for number in range(20):
            with suppress(Unavailable):
                place = room.enter(UUID(int=number + 10), READ_UNITS)
                while True:
                    lists.enter_context(place.more(LIST_UNITS))
        for _ in range(30):
            room.enter(A, READ_UNITS)
            room.enter(B, READ_UNITS)


def test_request_takes_its_units_again_after_its_body() -> None:
    room = RequestRoom(units=8)
    place, _ = room.enter(A, 2), room.enter(A, 1)
    with place.waiting_for_client():
        assert repr(room) == "<RequestRoom: 1 units taken, 7 left>"
    assert repr(room) == "<RequestRoom: 3 units taken, 5 left>"
    with pytest.raises(Unavailable), place.waiting_for_client():
        room.enter(B, 6)
    place.leave()
    assert repr(room) == "<RequestRoom: 7 units taken, 1 left>"


async def test_bodies_that_trickle_take_no_room(service: Service, api: Api) -> None:
    """Otherwise a few organizations could leave others one request at a time for as long as they like."""
    room = service.app[ROOM]
    head = f"POST {AGENTS} HTTP/1.1\r\nHost: x\r\nAuthorization: {api.authorization}\r\n"
    head += "Content-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
    reader, writer = await asyncio.open_connection(*service.address)
    writer.write(head.encode())
    await reader.readuntil(b"\r\n\r\n")
    assert " 0 units taken" in repr(room)
    writer.write(b"{}")
    assert (await reader.readline()).startswith(b"HTTP/1.1 400 ")
    await wait_for_units(room, 0)
    writer.close()


async def test_memory_for_a_long_body_is_held_while_it_arrives(service: Service, api: Api) -> None:
    room = service.app[ROOM]
    head = f"POST {AGENTS} HTTP/1.1\r\nHost: x\r\nAuthorization: {api.authorization}\r\n"
    reader, writer = await asyncio.open_connection(*service.address)
    writer.write(f"{head}Expect: 100-continue\r\nContent-Length: 300000\r\n\r\n".encode())
    await reader.readuntil(b"\r\n\r\n")
    assert repr(room) == f"<RequestRoom: 2 units taken, {UNITS - 2} left>"
    writer.write(b" " * 300_000)
    assert (await reader.readline()).startswith(b"HTTP/1.1 415 ")
    await wait_for_units(room, 0)
    writer.close()


async def test_waits_take_no_room(service: Service, api: Api) -> None:
    agent = await api.create_agent()
    await api.post(f"{AGENTS}{agent['id']}/run/")
    [run] = (await api.get(f"{AGENTS}{agent['id']}/runs/")).body
    for path in (f"{AGENTS}{agent['id']}/runs/{run['id']}/?wait=60", "/api/events/?wait=60&limit=1"):
        waiting = asyncio.create_task(api.get(path))
        await asyncio.sleep(0.2)
        assert not waiting.done()
        assert " 0 units taken" in repr(service.app[ROOM])
        waiting.cancel()
