"""Asks a running service how it is, as its operator."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import aiohttp

Json = dict[str, Any]

TIMEOUT = aiohttp.ClientTimeout(total=10)


class StatusUnavailable(Exception):
    """The service did not tell; the message says why and what to do."""


class StatusClient:
    """Speaks to one service. Its token may be known only after the service was found to be there."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url
        self.token = ""

    async def require_service(self) -> None:
        """Raise StatusUnavailable unless something of ours answers there."""
        await self._get("/healthz")

    async def overview(self) -> Json:
        """The whole service in numbers."""
        answer: Json = await self._get("/status/")
        return answer

    async def supervisors(self, phase: str | None, limit: int) -> list[Json]:
        """Snapshots of agents, at most `limit`, of one phase if given."""
        query = {"limit": str(limit), **({"phase": phase} if phase else {})}
        answer: list[Json] = await self._get("/status/supervisors/", query)
        return answer

    async def supervisor(self, agent_id: UUID) -> Json:
        """The snapshot of one agent."""
        answer: Json = await self._get(f"/status/supervisors/{agent_id}/")
        return answer

    async def _get(self, path: str, query: dict[str, str] | None = None) -> Any:
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        try:
            async with self._session.get(self._url + path, params=query, headers=headers) as answer:
                if answer.status != 200:
                    raise StatusUnavailable(self._refusal(answer.status, path))
                return await answer.json()
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise StatusUnavailable(
                f"no service answers at {self._url}: start it, or give its --url"
            ) from error

    def _refusal(self, status: int, path: str) -> str:
        match status:
            case 401:
                return f"the service at {self._url} takes another operator token: set operator.token to it"
            case 404 if path.startswith("/status/supervisors/"):
                return f"there is no agent {path.split('/')[3]}"
            case 503:
                return f"the service at {self._url} stands by, or its database is away"
            case _:
                return (
                    f"{self._url} answers {status} and seems to be something else: give the --url of hostsvc"
                )


@asynccontextmanager
async def status_client(url: str) -> AsyncIterator[StatusClient]:
    """A client for as long as the block lasts."""
    async with aiohttp.ClientSession(timeout=TIMEOUT, raise_for_status=False) as session:
        yield StatusClient(session, url)
