"""Pages, links, and whole lists in a stream."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from aiohttp import ClientPayloadError, web
from aiohttp.test_utils import make_mocked_request
from yarl import URL

from storage.ids import new_id
from storage.model import Role
from storage.postgres.paging import CHUNK_BYTES, Chunk, Cursor, Page
from storage.storage import Storage
from tests.web.conftest import Answer, Api, Service, StartService
from web.access.auth import CALLER, Caller
from web.app_keys import ROOM
from web.errors import PermissionDenied
from web.paging import answer_owned, send_pieces
from web.request_room import PLACE, RequestRoom

NOTIFICATIONS = "/api/defaults/notifications/"
MORE_THAN_CONNECTIONS = 11

MANY = """
INSERT INTO notification (organization_id, agent_id, title, body, created_at)
SELECT organization_id, id, 'n' || n, $2, now() + n * interval '1 ms'
FROM agent, generate_series(1, $1) AS n
"""


def next_path(page: Answer) -> str:
    """Return the path of the next page; blank on the last one."""
    link = page.headers.get("Link", "").removeprefix("<").removesuffix('>; rel="next"')
    return str(URL(link).relative()) if link else ""


async def fill(storage: Storage, count: int, body: str = "") -> None:
    await storage.pool.execute(MANY, count, body)


async def test_nothing_is_skipped_after_deleted_item(service: Service, api: Api) -> None:
    """The id tells only the millisecond of creation, so items of that millisecond may appear again."""
    agent = await api.create_agent()
    created = [await api.create_notification(agent) for _ in range(4)]
    moment = "UPDATE notification SET created_at = (SELECT min(created_at) FROM notification)"
    await service.storage.pool.execute(moment)
    newest_first = [item["id"] for item in reversed(created)]
    await api.delete(f"{NOTIFICATIONS}{newest_first[1]}/")

    rest = await api.get(f"{NOTIFICATIONS}?after={newest_first[1]}")

    assert [item["id"] for item in rest.body][-2:] == newest_first[2:]


@pytest.mark.parametrize(
    "after",
    ["a1cb1838-94eb-4b1b-a07a-bb9b3f5f2a51", "ffffffff-ffff-7fff-bfff-ffffffffffff"],
    ids=["of another version", "of the year 10889"],
)
async def test_nothing_follows_a_cursor_that_no_item_can_have(service: Service, api: Api, after: str) -> None:
    await api.create_agent()
    await fill(service.storage, 2)
    answer = await api.get(f"{NOTIFICATIONS}?after={after}")
    assert (answer.status, answer.body) == (200, [])


async def test_link_uses_address_of_client_or_setting(
    start_service: StartService, service: Service, api: Api
) -> None:
    await api.create_agent()
    await fill(service.storage, 2)
    host = {"Host": "agents.example.org:8443"}
    page = await api.get(f"{NOTIFICATIONS}?limit=1", headers=host)
    assert page.headers["Link"].startswith(f"<http://agents.example.org:8443{NOTIFICATIONS}?limit=1&after=")

    elsewhere = (await start_service(base_url="https://example.org/agents")).client
    page = await Api(elsewhere, api.authorization).get(f"{NOTIFICATIONS}?limit=1", headers=host)
    assert page.headers["Link"].startswith(f"<https://example.org/agents{NOTIFICATIONS}?limit=1&after=")


async def test_list_without_limit_is_whole(service: Service, api: Api) -> None:
    await api.create_agent()
    await fill(service.storage, 2500)
    answer = await api.get(NOTIFICATIONS)
    assert [item["title"] for item in answer.body] == [f"n{n}" for n in range(2500, 0, -1)]
    assert len((await api.get(f"{NOTIFICATIONS}?offset=400")).body) == 2100
    assert (await api.request("HEAD", NOTIFICATIONS)).status == 200


async def test_long_page_is_streamed_with_its_link(service: Service, api: Api) -> None:
    await api.create_agent()
    await fill(service.storage, 12, "x" * (CHUNK_BYTES // 3))
    page = await api.get(f"{NOTIFICATIONS}?limit=7&offset=1")
    assert (page.headers.get("Content-Length"), page.headers["Content-Type"]) == (None, "application/json")
    rest = await api.get(next_path(page))

    assert [item["title"] for item in page.body] == [f"n{n}" for n in range(11, 4, -1)]
    assert [item["title"] for item in rest.body] == [f"n{n}" for n in range(4, 0, -1)]
    assert "Link" not in rest.headers
    head = await api.request("HEAD", f"{NOTIFICATIONS}?limit=7&offset=1")
    assert (head.status, head.body, head.headers["Link"]) == (200, "", page.headers["Link"])


async def test_long_lists_of_one_organization_are_limited(service: Service, api: Api, other: Api) -> None:
    await api.create_agent()
    await fill(service.storage, 300, "x" * CHUNK_BYTES)
    headers = {"Authorization": api.authorization or ""}
    async with AsyncExitStack() as lists:
        while True:
            answer = await lists.enter_async_context(service.client.get(NOTIFICATIONS, headers=headers))
            if answer.status != 200:
                break
        assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
        assert (await api.get(f"{NOTIFICATIONS}?limit=1")).status == 200
        assert (await other.get(NOTIFICATIONS)).status == 200
    while (page := await api.get(f"{NOTIFICATIONS}?limit=2")).status == 503:
        pass
    assert [item["title"] for item in page.body] == ["n300", "n299"]


async def test_long_page_of_traces_is_whole(service: Service, api: Api) -> None:
    agent = await api.create_agent()
    body = {"agent": agent["id"], "metadata": {"x": "x" * (CHUNK_BYTES // 3)}}
    for number in range(5):
        await api.create("/api/tracing/traces/", name=f"t{number}", **body)
    pagination = {"total_count": 5, "limit": 4, "offset": 0, "has_more": True}

    page = (await api.get("/api/tracing/traces/?limit=4")).body
    [same_page] = (await api.get("/api/tracing/traces/list/?limit=4")).body

    assert [trace["name"] for trace in page["results"]] == ["t4", "t3", "t2", "t1"]
    assert page["pagination"] == pagination
    assert same_page == page


async def test_slow_readers_hold_no_connection(service: Service, api: Api) -> None:
    await api.create_agent()
    await fill(service.storage, 6000, "x" * 4000)
    headers = {"Authorization": api.authorization or ""}
    async with AsyncExitStack() as readers:
        for _ in range(MORE_THAN_CONNECTIONS):
            await readers.enter_async_context(service.client.get(NOTIFICATIONS, headers=headers))
        assert (await api.get(f"{NOTIFICATIONS}?limit=1")).status == 200


async def test_aborted_list_is_visibly_incomplete(service: Service, api: Api) -> None:
    await api.create_agent()
    await fill(service.storage, 6000, "x" * 4000)
    headers = {"Authorization": api.authorization or ""}
    async with service.client.get(NOTIFICATIONS, headers=headers) as response:
        await service.storage.pool.execute("ALTER TABLE notification RENAME TO elsewhere")
        with pytest.raises(ClientPayloadError):
            await response.read()


LONG_AGO = datetime(2020, 2, 2, tzinfo=UTC)


@dataclass(frozen=True)
class Thing:
    id: UUID
    organization_id: UUID
    created_at: datetime


class Things:
    """A store that lists things, and remembers where its last list started."""

    def __init__(self, *things: Thing) -> None:
        self.things = {thing.id: thing for thing in things}
        self.after: Cursor | None = None

    async def list_page(self, organization_id: UUID, page: Page) -> Chunk[Thing]:
        self.after = page.after
        return Chunk(list(self.things.values()), is_cut=False)

    async def get(self, thing_id: UUID) -> Thing | None:
        return self.things.get(thing_id)

    async def list_after(self, after: UUID | None, organization_id: UUID) -> list[Any]:
        query = {"after": after, "limit": None, "offset": None}
        app = web.Application()
        app[ROOM] = RequestRoom()
        request = make_mocked_request("GET", "/things/", app=app)
        request[CALLER] = Caller(new_id(), {organization_id: Role.MEMBER})
        fetch = partial(self.list_page, organization_id)
        answer = await answer_owned(request, query, (organization_id,), self.get, fetch, asdict)
        assert isinstance(answer, web.Response)
        assert isinstance(answer.body, bytes)
        items: list[Any] = json.loads(answer.body)
        return [item["id"] for item in items]


async def test_owned_list_refuses_foreign_cursor() -> None:
    thing = Thing(new_id(), new_id(), LONG_AGO)
    with pytest.raises(PermissionDenied):
        await Things(thing).list_after(thing.id, new_id())


class Piece(bytes):
    """A piece that says when it is no longer kept."""

    kept = 0

    def __init__(self, _: bytes) -> None:
        Piece.kept += 1

    def __del__(self) -> None:
        Piece.kept -= 1


async def test_piece_that_was_sent_is_not_kept() -> None:
    request = make_mocked_request("GET", NOTIFICATIONS)
    request[PLACE] = RequestRoom().enter(new_id(), 1)
    kept = []

    async def pieces() -> AsyncIterator[bytes]:
        for content in (b"a", b"b", b"c"):
            kept.append(Piece.kept)
            yield Piece(content)

    await send_pieces(request, {}, pieces())
    assert kept == [0, 0, 0]
