"""Pages, links, and whole lists in a stream."""

from contextlib import AsyncExitStack

import pytest
from aiohttp import ClientPayloadError

from storage.storage import Storage
from tests.web.conftest import Api, Service
from web.paging import CHUNK_BYTES, FIRST_ROWS

NOTIFICATIONS = "/api/defaults/notifications/"
MORE_THAN_CONNECTIONS = 11

MANY = """
INSERT INTO notification (organization_id, agent_id, title, body, created_at)
SELECT organization_id, id, 'n' || n, $2, now() + n * interval '1 ms'
FROM agent, generate_series(1, $1) AS n
"""


async def fill(storage: Storage, count: int, body: str = "") -> None:
    await storage.pool.execute(MANY, count, body)


async def test_pages_follow_their_links_to_the_end(service: Service, api: Api) -> None:
    await api.create_agent()
    await fill(service.storage, 5)
    whole = (await api.get(NOTIFICATIONS)).body
    page = await api.get(f"{NOTIFICATIONS}?limit=2&cleared=false&offset=1")
    seen = [whole[0], *page.body]
    while "Link" in page.headers:
        link = page.headers["Link"].removeprefix("<").removesuffix('>; rel="next"')
        assert "cleared=false" in link
        assert "offset" not in link
        page = await api.get(link)
        seen += page.body
    assert seen == whole


async def test_a_full_last_page_has_no_link(service: Service, api: Api) -> None:
    await api.create_agent()
    await fill(service.storage, 2)
    assert "Link" not in (await api.get(f"{NOTIFICATIONS}?limit=2")).headers
    assert "Link" in (await api.get(f"{NOTIFICATIONS}?limit=1")).headers
    assert (await api.get(f"{NOTIFICATIONS}?limit=1&offset=2")).body == []


async def test_without_a_limit_the_whole_list_comes(service: Service, api: Api) -> None:
    await api.create_agent()
    await fill(service.storage, 2500)
    answer = await api.get(NOTIFICATIONS)
    assert [item["title"] for item in answer.body] == [f"n{n}" for n in range(2500, 0, -1)]
    assert len((await api.get(f"{NOTIFICATIONS}?offset=400")).body) == 2100
    assert (await api.request("HEAD", NOTIFICATIONS)).status == 200


@pytest.mark.parametrize("count", [FIRST_ROWS - 1, FIRST_ROWS, FIRST_ROWS + 1])
async def test_a_list_of_about_one_chunk_is_whole(service: Service, api: Api, count: int) -> None:
    await api.create_agent()
    await fill(service.storage, count)
    assert len((await api.get(NOTIFICATIONS)).body) == count


async def test_a_list_of_rows_longer_than_a_chunk_is_whole(service: Service, api: Api) -> None:
    await api.create_agent()
    await fill(service.storage, FIRST_ROWS + 3, "x" * (CHUNK_BYTES + 1))
    titles = [item["title"] for item in (await api.get(NOTIFICATIONS)).body]
    assert titles == [f"n{n}" for n in range(FIRST_ROWS + 3, 0, -1)]


async def test_slow_readers_hold_no_connection(service: Service, api: Api) -> None:
    await api.create_agent()
    await fill(service.storage, 6000, "x" * 4000)
    headers = {"Authorization": api.authorization or ""}
    async with AsyncExitStack() as readers:
        for _ in range(MORE_THAN_CONNECTIONS):
            await readers.enter_async_context(service.client.get(NOTIFICATIONS, headers=headers))
        assert (await api.get(f"{NOTIFICATIONS}?limit=1")).status == 200


async def test_a_list_that_breaks_off_is_seen_to_be_broken(service: Service, api: Api) -> None:
    await api.create_agent()
    await fill(service.storage, 6000, "x" * 4000)
    headers = {"Authorization": api.authorization or ""}
    async with service.client.get(NOTIFICATIONS, headers=headers) as response:
        await service.storage.pool.execute("ALTER TABLE notification RENAME TO elsewhere")
        with pytest.raises(ClientPayloadError):
            await response.read()
