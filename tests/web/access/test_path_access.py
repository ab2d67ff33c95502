"""Resources that a path names: found, missing, another organization's."""

import asyncio
from dataclasses import dataclass
from uuid import UUID

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from storage.ids import new_id
from storage.model import Role
from web.access.auth import CALLER, Caller
from web.access.path_access import load, load_in_turn
from web.app_keys import ROOM
from web.errors import Unavailable
from web.request_room import RequestRoom


@dataclass(frozen=True)
class Thing:
    id: UUID
    organization_id: UUID


class Things:
    """A store of things by id."""

    def __init__(self, *things: Thing) -> None:
        self.things = {thing.id: thing for thing in things}

    async def get_short(self, thing_id: UUID) -> Thing | None:
        return self.things.get(thing_id)

    async def get_alone(self, thing_id: UUID) -> Thing | None:
        return self.things.get(thing_id)


class LongThings(Things):
    """A store of long things, which are read alone, once its gate is open."""

    def __init__(self, *things: Thing) -> None:
        super().__init__(*things)
        self.reading: list[UUID] = []
        self.gate = asyncio.Event()

    async def get_short(self, thing_id: UUID) -> Thing | None:
        return None

    async def get_alone(self, thing_id: UUID) -> Thing | None:
        self.reading.append(thing_id)
        await self.gate.wait()
        return self.things.get(thing_id)


def asking_for(text: object, room: RequestRoom | None = None, caller: Caller | None = None) -> web.Request:
    app = web.Application()
    app[ROOM] = room or RequestRoom()
    request = make_mocked_request("GET", f"/things/{text}/", match_info={"id": str(text)}, app=app)
    request[CALLER] = caller or member_of(new_id())
    return request


def member_of(organization_id: UUID, role: Role = Role.MEMBER) -> Caller:
    return Caller(new_id(), {organization_id: role})


async def test_long_reads_of_one_organization_leave_turns_to_others() -> None:
    thing, room = Thing(new_id(), new_id()), RequestRoom()
    ours, theirs, long_things = member_of(new_id()), member_of(new_id()), LongThings(thing)
    tasks = [asyncio.create_task(load(asking_for(thing.id, room, ours), long_things)) for _ in range(20)]
    await asyncio.sleep(0)
    assert len(long_things.reading) == 3
    other = asyncio.create_task(load(asking_for(thing.id, room, theirs), long_things))
    await asyncio.sleep(0)
    assert len(long_things.reading) == 4
    long_things.gate.set()
    assert await asyncio.gather(*tasks, other) == [thing] * 21


async def test_short_read_needs_no_turn() -> None:
    thing, room, caller = Thing(new_id(), new_id()), RequestRoom(reads_at_once=1), member_of(new_id())
    async with room.reading(caller.accountable):
        assert await load(asking_for(thing.id, room, caller), Things(thing)) == thing


async def test_long_read_without_a_turn_in_time_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("web.request_room.TURN_SECONDS", 0.01)
    thing, room, caller = Thing(new_id(), new_id()), RequestRoom(reads_at_once=1), member_of(new_id())
    long_things = LongThings(thing)
    long_things.gate.set()
    async with room.reading(caller.accountable):
        with pytest.raises(Unavailable):
            await load(asking_for(thing.id, room, caller), long_things)
    assert await load(asking_for(thing.id, room, caller), long_things) == thing


async def test_load_in_turn_waits_for_every_read() -> None:
    thing, room, caller = Thing(new_id(), new_id()), RequestRoom(reads_at_once=1), member_of(new_id())
    async with room.reading(caller.accountable):
        read = load_in_turn(asking_for(thing.id, room, caller), Things(thing).get_short)
        loading = asyncio.create_task(read)
        await asyncio.sleep(0)
        assert not loading.done()
    assert await loading == thing
