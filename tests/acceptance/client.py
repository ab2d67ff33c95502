"""A client of the REST API, as a user of the service would write it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar
from uuid import uuid4

import aiohttp

from tests.leaks import PASSWORD
from tests.patience import PATIENCE_SECONDS

POLL_SECONDS = 0.02

Found = TypeVar("Found")
Json = dict[str, Any]


class Refused(AssertionError):
    """The service refused a request."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(f"{status}: {body}")
        self.status = status


@dataclass(frozen=True, slots=True)
class Client:
    """Calls one address with one credential."""

    session: aiohttp.ClientSession
    url: str
    authorization: str = ""

    def at(self, url: str) -> "Client":
        """Return the same caller for another address."""
        return Client(self.session, url, self.authorization)

    async def get(self, path: str, **query: str) -> Any:
        return await self._call("GET", path, params=query)

    async def post(self, path: str, /, **body: Any) -> Any:
        return await self._call("POST", path, json=body)

    async def patch(self, path: str, /, **body: Any) -> Any:
        return await self._call("PATCH", path, json=body)

    async def upload(self, path: str, form: aiohttp.FormData) -> Any:
        return await self._call("POST", path, data=form)

    async def status_of(self, path: str, method: str = "GET") -> int:
        """Return the status of the answer, even of an error."""
        async with self.session.request(method, self.url + path, headers=self._headers()) as response:
            return response.status

    async def create_agent(self, **fields: Any) -> str:
        """Create an agent that works offline, and return its id."""
        body = {"name": "Clerk", "model": "builtin/inbox", **fields}
        return str((await self.post("/api/cloud/agents/", **body))["id"])

    async def agent(self, agent_id: str) -> Json:
        answer: Json = await self.get(f"/api/cloud/agents/{agent_id}/")
        return answer

    async def runs(self, agent_id: str) -> list[Json]:
        """Return the agent's runs, oldest first."""
        return list(reversed(await self.get(f"/api/cloud/agents/{agent_id}/runs/")))

    async def ended_run(self, agent_id: str, number: int = 1) -> Json:
        """Wait until the agent's nth run has ended, and return it."""

        async def look() -> Json | None:
            runs = await self.runs(agent_id)
            return runs[number - 1] if len(runs) >= number and runs[number - 1]["ended_at"] else None

        return await eventually(look, f"run {number} of {agent_id} to be over")

    async def trace(self, run: Json) -> Json:
        """Return the trace of an ended run, once the work after its end is finished, too."""
        await self.get(f"/api/cloud/agents/{run['agent']}/runs/{run['id']}/?wait=10")
        trace: Json = await self.get(f"/api/tracing/traces/{run['trace']}/")
        return trace

    async def notify(self, agent_id: str, title: str = "Hello", **fields: Any) -> Json:
        answer: Json = await self.post(
            "/api/defaults/notifications/", agent=agent_id, title=title, **{"priority": "high", **fields}
        )
        return answer

    async def notifications(self, agent_id: str, **query: str) -> list[Json]:
        """Return the agent's notifications, newest first."""
        answer: list[Json] = await self.get("/api/defaults/notifications/", agent=agent_id, **query)
        return answer

    async def supervisor(self, agent_id: str) -> Json:
        answer: Json = await self.get(f"/api/cloud/agents/{agent_id}/supervisor/")
        return answer

    async def supervisor_in(self, phase: str, agent_id: str) -> Json:
        """Wait until the agent is in this phase, and return its snapshot."""

        async def look() -> Json | None:
            snapshot = await self.supervisor(agent_id)
            return snapshot if snapshot["phase"] == phase else None

        return await eventually(look, f"{agent_id} to be {phase}")

    async def handled_hold(self, agent_id: str) -> Json:
        """Return a snapshot that was read after the supervisor had stored and handled its hold.

        An earlier one shows the hold too, but not the message yet, nor since when by the event log.
        """

        async def is_handled() -> bool | None:
            messages = (await self.supervisor(agent_id))["recent"]
            return any("notified" in each["message"] for each in messages) or None

        await eventually(is_handled, f"{agent_id} to hold")
        return await self.supervisor(agent_id)

    async def _call(self, method: str, path: str, **request: Any) -> Any:
        async with self.session.request(
            method, self.url + path, headers=self._headers(), **request
        ) as response:
            if response.status >= 300:
                raise Refused(response.status, await response.text())
            return await response.json()

    def _headers(self) -> Mapping[str, str]:
        return {"Authorization": self.authorization} if self.authorization else {}


async def sign_up(session: aiohttp.ClientSession, url: str) -> Client:
    """Sign up a new organization, and return a client with an API key."""
    account = await Client(session, url).post(
        "/api/organizations/auth/signup/",
        email=f"{uuid4().hex}@example.org",
        password=PASSWORD,
        organization_name="Example",
    )
    user = Client(session, url, f"Token {account['token']}")
    key = await user.post("/api/organizations/api-keys/", name="first")
    return Client(session, url, f"Bearer {key['key']}")


async def eventually(
    look: Callable[[], Awaitable[Found | None]], what: str, within: float = PATIENCE_SECONDS
) -> Found:
    """Call `look` until it returns something, and return that."""
    try:
        async with asyncio.timeout(within):
            while (found := await look()) is None:  # noqa: ASYNC110 -- it happens in another process
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        raise AssertionError(f"waited {within} s in vain for {what}") from None
    return found


def moment(text: str) -> datetime:
    """Parse an instant as the API writes it."""
    return datetime.fromisoformat(text)
