"""The memory for bodies that are long: its bound, and the share of each client."""

import asyncio
import gzip
from contextlib import ExitStack
from uuid import UUID

import pytest

from tests.web.conftest import Api, Service
from web.app_keys import BODY_ROOM
from web.body_room import BodyRoom
from web.errors import Unavailable

A, B, C = (UUID(int=number) for number in range(3))
NO_ROOM = {"detail": "Too many long request bodies are arriving."}


def test_organization_has_a_quarter_of_the_room() -> None:
    room = BodyRoom(max_bytes=400)
    with ExitStack() as bodies:
        bodies.enter_context(room.take(A, 60))
        with pytest.raises(Unavailable), room.take(A, 60):
            pass
        bodies.enter_context(room.take(A, 40))
        bodies.enter_context(room.take(B, 250))  # the only one, so it may exceed the share
        with pytest.raises(Unavailable) as refused, room.take(C, 51):
            pass
        assert refused.value.headers == {"Retry-After": "1"}
    assert repr(room) == "<BodyRoom: 0 of 400 bytes taken>"


async def test_body_without_room_is_refused_unread(service: Service, api: Api) -> None:
    compressed = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    with service.app[BODY_ROOM].take(A, 256 * 1_048_576 - 10_000):
        short = await api.create_agent()
        for headers, data in (
            ({}, b'{"name": "' + b"x" * 40_000 + b'"}'),
            (compressed, gzip.compress(b'{"name": "x"}')),
        ):
            answer = await api.request("POST", "/api/cloud/agents/", data=data, headers=headers)
            assert (answer.status, answer.body) == (503, NO_ROOM)
            assert answer.headers["Retry-After"] == "1"
    assert short["name"] == "Ann"
    body = gzip.compress(b'{"name": "Ann", "model": "m"}')
    answer = await api.request("POST", "/api/cloud/agents/", data=body, headers=compressed)
    assert answer.status == 201


async def test_room_is_held_while_a_body_arrives(service: Service, api: Api) -> None:
    room = service.app[BODY_ROOM]
    head = f"POST /api/cloud/agents/ HTTP/1.1\r\nHost: x\r\nAuthorization: {api.authorization}\r\n"
    reader, writer = await asyncio.open_connection(*service.address)
    writer.write(f"{head}Expect: 100-continue\r\nContent-Length: 50000\r\n\r\n".encode())
    await reader.readuntil(b"\r\n\r\n")
    assert repr(room) == "<BodyRoom: 50000 of 268435456 bytes taken>"
    writer.write(b" " * 50_000)
    assert (await reader.readline()).startswith(b"HTTP/1.1 415 ")
    assert repr(room) == "<BodyRoom: 0 of 268435456 bytes taken>"
    writer.close()


async def test_bodies_of_one_organization_leave_room_for_others(service: Service, api: Api) -> None:
    other = await service.new_organization()
    taken_by = await service.storage.pool.fetchval("SELECT id FROM organization ORDER BY id LIMIT 1")
    with service.app[BODY_ROOM].take(taken_by, 64 * 1_048_576):
        body = {"title": "d", "content": "x" * 40_000}
        path = "/api/defaults/documents/"
        statuses = {(await each.request("POST", path, json=body)).status for each in (api, other)}
    assert statuses == {201, 503}
