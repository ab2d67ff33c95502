"""A client for event streams that shows everything it receives, also comments and events without data."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import ClientResponse, ClientTimeout

from tests.patience import PATIENCE_SECONDS
from tests.web.conftest import Api

ENDLESS = ClientTimeout(total=None)


@dataclass(frozen=True)
class Block:
    """What stands between two blank lines of a stream."""

    id: int | None
    type: str
    data: Any
    retry: int | None = None
    comments: int = 0


class EventStreamReader:
    """Reads one stream, block by block."""

    def __init__(self, response: ClientResponse) -> None:
        self.response = response

    async def next(self) -> Block:
        """Return the next block. Raise EOFError at the end of the stream."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            fields: dict[str, str] = {}
            comments = 0
            while (line := (await self.response.content.readline()).decode()) not in {"\n", ""}:
                name, _, value = line.rstrip("\n").partition(": ")
                comments += name.startswith(":")
                fields[name] = value
            if not line:
                raise EOFError
        number = {name: int(fields[name]) for name in ("id", "retry") if name in fields}
        data = json.loads(fields["data"]) if "data" in fields else None
        return Block(number.get("id"), fields.get("event", ""), data, number.get("retry"), comments)

    async def next_event(self) -> Block:
        """Return the next block with data."""
        while (block := await self.next()).data is None:
            pass
        return block

    async def events(self, count: int) -> list[Block]:
        return [await self.next_event() for _ in range(count)]


@asynccontextmanager
async def event_stream(
    api: Api, path: str, headers: dict[str, str] | None = None
) -> AsyncIterator[EventStreamReader]:
    """Open a stream, whose first block is read already."""
    credential = {"Authorization": api.authorization} if api.authorization else {}
    sent = {"Accept": "text/event-stream", **credential, **(headers or {})}
    async with api.client.get(path, headers=sent, timeout=ENDLESS, read_bufsize=2**22) as response:
        assert response.status == 200, await response.text()
        yield EventStreamReader(response)
