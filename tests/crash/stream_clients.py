"""Clients that follow the events of an organization for ever, and note each event that they have seen."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Protocol

import httpx2
from playwright.async_api import Page

from storage.events.model import EventType
from tests.chromium import chromium

EVENTS = "/api/events/"
TICKETS = "/api/events/tickets/"
RETRY_SECONDS = 0.05
SILENCE_SECONDS = 30.0  # twice the time between comments of the service
READ_AT_ONCE = 10_000

# A new ticket when the old one has expired, as docs/events.md shows it. The service may be away for a moment.
FOLLOW = """
window.seen = []
const follow = async after => {
    const again = () => setTimeout(() => follow(after), %(retry)d)
    const answer = await fetch('%(tickets)s', {method: 'POST', headers: {Authorization: '%(authorization)s'}})
        .then(response => response.json(), () => null)
    if (!answer?.ticket) return again()
    const source = new EventSource(`%(events)s?ticket=${answer.ticket}&after=${after}`)
    for (const type of %(types)s) source.addEventListener(type, event => {
        after = event.lastEventId
        seen.push([Number(after), type, JSON.parse(event.data).id])
    })
    source.onerror = () => { if (source.readyState === EventSource.CLOSED) again() }
}
follow(0)
"""

# The id of the frame, its type, and the id in its data.
Seen = tuple[int, str, int]


class StreamClient(Protocol):
    """A client that is following."""

    @property
    def name(self) -> str: ...

    async def seen(self) -> list[Seen]:
        """Return all that it has seen."""


@dataclass
class BrowserClient:
    """Chromium, which reconnects by itself."""

    page: Page
    name: str = "Chromium"
    _seen: list[Seen] = field(default_factory=list)

    async def seen(self) -> list[Seen]:
        while part := await self.page.evaluate(
            f"seen.slice({len(self._seen)}, {len(self._seen) + READ_AT_ONCE})"
        ):
            self._seen += [(number, kind, again) for number, kind, again in part]
        return self._seen


@asynccontextmanager
async def browser_client(url: str, authorization: str) -> AsyncIterator[BrowserClient]:
    """Follow with the EventSource of a browser while the block lasts."""
    types = json.dumps([*EventType, "reset"])
    names = {"events": EVENTS, "tickets": TICKETS, "types": types, "retry": RETRY_SECONDS * 1000}
    async with chromium() as page:
        await page.goto(f"{url}/api/docs/")
        await page.evaluate(FOLLOW % {**names, "authorization": authorization})
        yield BrowserClient(page)


class HttpxClient:
    """The server-sent events of httpx2, which leaves reconnecting to its user."""

    name = "httpx2"

    def __init__(self, url: str, authorization: str) -> None:
        self._url = url
        self._headers = {"Authorization": authorization}
        self._seen: list[Seen] = []
        self._last_id = "0"

    async def seen(self) -> list[Seen]:
        return self._seen

    async def follow(self) -> None:
        """Follow until the task is cancelled."""
        async with httpx2.AsyncClient(base_url=self._url, timeout=SILENCE_SECONDS) as client:
            while True:
                with suppress(httpx2.TransportError):
                    await self._follow_once(client)
                await asyncio.sleep(RETRY_SECONDS)

    async def _follow_once(self, client: httpx2.AsyncClient) -> None:
        headers = {**self._headers, "Last-Event-ID": self._last_id}
        async with client.sse(EVENTS, headers=headers) as source:
            async for event in source:
                self._last_id = event.id
                if event.data:
                    self._seen.append((int(event.id), event.event, json.loads(event.data)["id"]))


@asynccontextmanager
async def httpx_client(url: str, authorization: str) -> AsyncIterator[HttpxClient]:
    """Follow with httpx2 while the block lasts."""
    client = HttpxClient(url, authorization)
    task = asyncio.create_task(client.follow())
    try:
        yield client
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
