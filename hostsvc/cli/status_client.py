"""A client of the status endpoints of a running service.

StatusUnavailable
├── ServiceNotRunning    nothing answers, or not in time
├── ServiceStandingBy    the instance that answers does not lead
├── DatabaseLost         the service runs, but its database does not answer
└── AgentNotFound        no agent has this id or name, or several have the name
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, ClassVar, cast
from uuid import UUID

import aiohttp

Json = dict[str, Any]

TIMEOUT = aiohttp.ClientTimeout(total=10)
OVERVIEW = "/status/"
SUPERVISORS = "/status/supervisors/"


class StatusUnavailable(Exception):
    """The service returned no status; the messages say why and what to do."""

    exit_code: ClassVar[int] = 2

    def __init__(self, *messages: str) -> None:
        super().__init__("; ".join(messages))
        self.messages = messages


class ServiceNotRunning(StatusUnavailable):
    """Nothing answers at the URL."""

    exit_code = 3


class ServiceStandingBy(StatusUnavailable):
    """The instance at the URL does not lead, so it knows no agents."""

    exit_code = 4


class DatabaseLost(StatusUnavailable):
    """The service runs, but cannot read the agents, because its database does not answer."""

    exit_code = 5


class AgentNotFound(StatusUnavailable):
    """No agent has this id or name, or several have the name."""


class StatusClient:
    """A client of one service. Set `token` before asking for the status; `require_leader` needs none."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url
        self.token = ""

    async def require_leader(self) -> None:
        """Raise ServiceNotRunning if nothing answers, ServiceStandingBy if it is no leader that answers."""
        status, _ = await self._request("/healthz")
        if status != 200:
            raise self._refusal(status, "/healthz")
        status, _ = await self._request(OVERVIEW)
        if status == 503:
            raise ServiceStandingBy(
                f"the service at {self._url} is standing by: another instance leads, or this one is still "
                "starting; set --url to the one that leads"
            )

    async def readiness_problem(self) -> str:
        """Return why the service cannot serve, in its own words; blank if it can."""
        status, body = await self._request("/readyz")
        return str(body.get("detail", "")) if status == 503 and isinstance(body, dict) else ""

    async def overview(self) -> Json:
        """Return the status of the whole service."""
        return cast(Json, await self._get(OVERVIEW))

    async def supervisors(self, limit: int, **filters: str) -> list[Json]:
        """Return the snapshots of at most `limit` agents; the filters are those of the endpoint."""
        return cast(list[Json], await self._get(SUPERVISORS, {"limit": str(limit), **filters}))

    async def supervisor(self, agent_id: UUID) -> Json:
        """Return the snapshot of one agent."""
        return cast(Json, await self._get(f"{SUPERVISORS}{agent_id}/"))

    async def _get(self, path: str, query: dict[str, str] | None = None) -> Any:
        status, body = await self._request(path, query)
        if status == 503:
            problem = await self.readiness_problem() or "its database does not answer."
            raise DatabaseLost(f"the service at {self._url} runs, but cannot read its agents: {problem}")
        if status != 200 or body is None:
            raise self._refusal(status, path)
        return body

    async def _request(self, path: str, query: dict[str, str] | None = None) -> tuple[int, Any]:
        """Return the status and the JSON of the answer, or None in its place if it is not JSON."""
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        try:
            async with self._session.get(self._url + path, params=query, headers=headers) as response:
                with suppress(aiohttp.ContentTypeError, ValueError):
                    return response.status, await response.json()
                return response.status, None
        except TimeoutError as error:
            raise ServiceNotRunning(
                f"the service at {self._url} did not answer within {TIMEOUT.total:g} s: "
                "look into its log, or restart it"
            ) from error
        except aiohttp.ClientError as error:
            raise ServiceNotRunning(f"no service answers at {self._url}: start it, or set --url") from error

    def _refusal(self, status: int, path: str) -> StatusUnavailable:
        match status:
            case 401:
                return StatusUnavailable(
                    f"the service at {self._url} has another operator token: set operator.token or "
                    "HOSTSVC__OPERATOR__TOKEN to it"
                )
            case 404 if path.startswith(SUPERVISORS):
                return AgentNotFound(f"there is no agent {path.split('/')[3]}")
            case _:
                return StatusUnavailable(
                    f"{self._url} returned {status}, so it is probably not hostsvc: correct --url"
                )


@asynccontextmanager
async def status_client(url: str) -> AsyncIterator[StatusClient]:
    """Yield a client of the service at `url`."""
    async with aiohttp.ClientSession(timeout=TIMEOUT) as session:
        yield StatusClient(session, url)
