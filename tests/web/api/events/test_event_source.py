"""A browser's own EventSource, whose connections are cut, sees each event of the log once and in order."""

import asyncio

import pytest
from playwright.async_api import Page

from tests.chromium import chromium
from tests.web.conftest import Api, Service
from web.api.events.open_streams import OPEN_STREAMS

EVENTS = 60
CUT_EVERY = 12
LISTEN = """
(async () => {
    window.seen = []
    const source = new EventSource('/api/events/?ticket=%s')
    source.addEventListener('notification.created', event => {
        window.seen.push([Number(event.lastEventId), JSON.parse(event.data).resource.title])
    })
    await new Promise(done => { source.onopen = done })
})()
"""
SEEN = (
    "new Promise(done => { (function look() { seen.length >= %d ? done(seen) : setTimeout(look, 50) })() })"
)
IDS = "SELECT id FROM event WHERE type = 'notification.created' ORDER BY id"


@pytest.mark.console
async def test_event_source_misses_nothing_when_connections_are_cut(service: Service, api: Api) -> None:
    agent = await api.create_agent()
    ticket = (await api.create("/api/events/tickets/"))["ticket"]
    async with chromium() as page:
        await page.goto(f"http://127.0.0.1:{service.address[1]}/api/docs/")
        await page.evaluate(LISTEN % ticket)
        for number in range(EVENTS):
            await api.create_notification(agent, title=f"Number {number}")
            if number % CUT_EVERY == CUT_EVERY - 1:
                cut_connections(service)
        seen = await seen_by(page)
    rows = await service.storage.pool.fetch(IDS)
    assert [event_id for event_id, _ in seen] == [row["id"] for row in rows]
    assert [title for _, title in seen] == [f"Number {number}" for number in range(EVENTS)]


def cut_connections(service: Service) -> None:
    streams = service.app[OPEN_STREAMS]
    for stream in streams:
        if stream.request.transport is not None:
            stream.request.transport.abort()


async def seen_by(page: Page) -> list[tuple[int, str]]:
    async with asyncio.timeout(60):
        seen: list[tuple[int, str]] = await page.evaluate(SEEN % EVENTS)
    return seen
