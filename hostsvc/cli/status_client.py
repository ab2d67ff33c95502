"""A client of the status endpoints of a running service, with its stream of events.

StatusUnavailable
├── ServiceNotRunning    nothing answers, or not in time
├── DatabaseLost         the service runs, but its database does not answer
└── AgentNotFound        no agent has this id or name, or several have the name
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import datetime
from typing import Any, ClassVar, cast
from uuid import UUID

import aiohttp

from supervisors.text import format_timestamp

Json = dict[str, Any]

TIMEOUT = aiohttp.ClientTimeout(total=10)
OVERVIEW = "/status/"
SUPERVISORS = "/status/supervisors/"
EVENTS = "/status/events/"
MAX_LINE_BYTES = 2**24  # of a stream; the longest resource is a fifth of it
STREAM_TIMEOUT = aiohttp.ClientTimeout(sock_connect=10, sock_read=40)  # a stream is never silent for so long

Query = Sequence[tuple[str, str]]


class StatusUnavailable(Exception):
    """The service returned no status; the messages say why and what to do."""

    exit_code: ClassVar[int] = 2

    def __init__(self, *messages: str) -> None:
        super().__init__("; ".join(messages))
        self.messages = messages


class ServiceNotRunning(StatusUnavailable):
    """Nothing answers at the URL."""

    exit_code = 3


class DatabaseLost(StatusUnavailable):
    """The service runs, but cannot read the agents, because its database does not answer."""

    exit_code = 5


class AgentNotFound(StatusUnavailable):
    """No agent has this id or name, or several have the name."""


class StatusClient:
    """A client of one service. Set `token` before asking for the status; `require_service` needs none."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url
        self.token = ""

    async def require_service(self) -> None:
        """Raise ServiceNotRunning if nothing answers, StatusUnavailable if something else does."""
        status, _ = await self._request("/healthz")
        if status != 200:
            raise self._refusal(status, "/healthz")

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

    async def supervisor_at(self, agent_id: UUID, moment: datetime) -> Json:
        """Return one agent as it was at a moment in the past."""
        query = {"at": format_timestamp(moment)}
        return cast(Json, await self._get(f"{SUPERVISORS}{agent_id}/", query))

    async def event_page(self, query: Query) -> Json:
        """Return events as JSON, with the position `after` them."""
        return cast(Json, await self._get(EVENTS, query))

    @asynccontextmanager
    async def event_stream(self, query: Query, after: str) -> AsyncIterator[aiohttp.StreamReader]:
        """Yield the stream of the events after this position."""
        headers = {**self._headers(), "Accept": "text/event-stream", "Last-Event-ID": after}
        with self._unanswered(STREAM_TIMEOUT.sock_read):
            async with self._session.get(
                self._url + EVENTS,
                params=query,
                headers=headers,
                timeout=STREAM_TIMEOUT,
                read_bufsize=MAX_LINE_BYTES,
            ) as response:
                if response.status != 200:
                    raise await self._failure(response.status, EVENTS, await _json_of(response))
                yield response.content

    async def _get(self, path: str, query: Query | dict[str, str] | None = None) -> Any:
        status, body = await self._request(path, query)
        if status != 200 or body is None:
            raise await self._failure(status, path, body)
        return body

    async def _failure(self, status: int, path: str, body: Any) -> StatusUnavailable:
        """Return the error for an answer that is no success."""
        if status != 503:
            return self._refusal(status, path, body)
        problem = await self.readiness_problem() or "its database does not answer."
        return DatabaseLost(f"the service at {self._url} runs, but cannot read its agents: {problem}")

    async def _request(self, path: str, query: Query | dict[str, str] | None = None) -> tuple[int, Any]:
        """Return the status and the JSON of the answer, or None in its place if it is not JSON."""
        with self._unanswered(TIMEOUT.total):
            async with self._session.get(self._url + path, params=query, headers=self._headers()) as response:
                return response.status, await _json_of(response)

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    @contextmanager
    def _unanswered(self, seconds: float | None) -> Iterator[None]:
        """Raise ServiceNotRunning if the block gets no answer; it waits this long."""
        try:
            yield
        except TimeoutError as error:
            raise ServiceNotRunning(
                f"the service at {self._url} did not answer within {seconds:g} s: "
                "look into its log, or restart it"
            ) from error
        except aiohttp.ClientError as error:
            raise ServiceNotRunning(f"no service answers at {self._url}: start it, or set --url") from error

    def _refusal(self, status: int, path: str, body: Any = None) -> StatusUnavailable:
        match status:
            case 400 if isinstance(body, dict):
                return StatusUnavailable(*(f"{field}: {_sentences(told)}" for field, told in body.items()))
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


async def _json_of(response: aiohttp.ClientResponse) -> Any:
    """Return the JSON of an answer; None if it is not JSON."""
    with suppress(aiohttp.ContentTypeError, ValueError):
        return await response.json()
    return None


def _sentences(told: Any) -> str:
    """Return what an answer says of a field, or of the elements of a list."""
    if isinstance(told, dict):
        return " ".join(map(_sentences, told.values()))
    return " ".join(map(str, told)) if isinstance(told, list) else str(told)


@asynccontextmanager
async def status_client(url: str) -> AsyncIterator[StatusClient]:
    """Yield a client of the service at `url`."""
    async with aiohttp.ClientSession(timeout=TIMEOUT) as session:
        yield StatusClient(session, url)
