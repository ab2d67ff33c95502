"""The official client of the Model Context Protocol, with a credential of the service."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from httpx2 import AsyncClient
from mcp import Client
from mcp.client.extension import ClientExtension
from mcp.client.streamable_http import streamable_http_client

from tests.patience import PATIENCE_SECONDS

MODES = ("auto", "legacy", "2026-07-28")


@asynccontextmanager
async def connected(
    url: str, authorization: str, mode: Any = "auto", extensions: Sequence[ClientExtension] = ()
) -> AsyncIterator[Client]:
    """Connect to a server, and disconnect at the end of the block."""
    async with AsyncClient(headers={"Authorization": authorization}, timeout=PATIENCE_SECONDS) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=mode, extensions=extensions) as client:
            yield client
