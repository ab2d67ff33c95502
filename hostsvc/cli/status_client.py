"""A client of the status endpoints of a running service."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast
from uuid import UUID

import aiohttp

Json = dict[str, Any]

TIMEOUT = aiohttp.ClientTimeout(total=10)


class StatusUnavailable(Exception):
    """The service returned no status; the message says why and what to do."""


class StatusClient:
    """A client of one service. Set `token` before asking for the status; `/healthz` needs none."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url
        self.token = ""

    async def require_service(self) -> None:
        """Raise StatusUnavailable if no service answers at the URL."""
        await self._get("/healthz")

    async def overview(self) -> Json:
        """Return the status of the whole service."""
        return cast(Json, await self._get("/status/"))

    async def supervisors(self, phase: str | None, limit: int) -> list[Json]:
        """Return the snapshots of at most `limit` agents, in one phase or in any."""
        query = {"limit": str(limit), **({"phase": phase} if phase else {})}
        return cast(list[Json], await self._get("/status/supervisors/", query))

    async def supervisor(self, agent_id: UUID) -> Json:
        """Return the snapshot of one agent."""
        return cast(Json, await self._get(f"/status/supervisors/{agent_id}/"))

    async def _get(self, path: str, query: dict[str, str] | None = None) -> Any:
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        try:
            async with self._session.get(self._url + path, params=query, headers=headers) as response:
                if response.status != 200:
                    raise StatusUnavailable(self._explain(response.status, path))
                return await response.json()
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise StatusUnavailable(f"no service answers at {self._url}: start it, or set --url") from error

    def _explain(self, status: int, path: str) -> str:
        match status:
            case 401:
                return f"the service at {self._url} has another operator token: set operator.token to it"
            case 404 if path.startswith("/status/supervisors/"):
                return f"there is no agent {path.split('/')[3]}"
            case 503:
                return f"the service at {self._url} is standing by, or its database is unavailable"
            case _:
                return f"{self._url} returned {status}, so it is probably not hostsvc: correct --url"


@asynccontextmanager
async def status_client(url: str) -> AsyncIterator[StatusClient]:
    """Yield a client of the service at `url`."""
    async with aiohttp.ClientSession(timeout=TIMEOUT) as session:
        yield StatusClient(session, url)
