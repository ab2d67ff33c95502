"""The service under attack, and the two organizations on it: one attacks, the other must not notice."""

import asyncio
import gzip
import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import aiohttp

from tests.acceptance.client import Client, Json
from tests.attack.sizes import Sizes
from tests.patience import PATIENCE_SECONDS

PASSWORD = "correct horse battery"
SIGN_UP = "/api/organizations/auth/signup/"
LOG_IN = "/api/organizations/auth/login/"
AGENTS = "/api/cloud/agents/"
NOTIFICATIONS = "/api/defaults/notifications/"
VICTIM_FROM = 10
TIMEOUT = aiohttp.ClientTimeout(total=PATIENCE_SECONDS)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one request; `text` is its whole body."""

    status: int
    headers: Mapping[str, str]
    text: str

    def json(self) -> Any:
        return json.loads(self.text)


@dataclass(frozen=True, slots=True)
class Tenant:
    """An organization with its owner, its API key, and one agent that is never woken."""

    email: str
    token: str = field(repr=False)
    key: Client = field(repr=False)
    organization: str
    agent: str


@dataclass(frozen=True, slots=True)
class Target:
    """A running service and what is known about it.

    `pid` lets attacks sample its memory; `token_secret` lets them sign tokens as it does. `clock` says how
    long others wait. Each attack that may be locked out calls from an address of its own, which only a
    service on loopback can see.
    """

    url: str
    sizes: Sizes
    session: aiohttp.ClientSession
    attacker: Tenant
    victim: Tenant
    pid: int | None = None
    operator_token: str = field(default="", repr=False)
    token_secret: str = field(default="", repr=False)
    hostile_provider: str = ""  # the name under which the service knows our model server
    clock: Callable[[], float] = perf_counter

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        parts = urlsplit(self.url)
        return parts.port or (443 if parts.scheme == "https" else 80)

    @property
    def tls(self) -> ssl.SSLContext | None:
        """Return how to connect sockets of our own: None for plain HTTP."""
        return ssl.create_default_context() if urlsplit(self.url).scheme == "https" else None

    @property
    def is_local(self) -> bool:
        return _is_local(self.url)

    async def send(
        self, method: str, path: str, session: aiohttp.ClientSession | None = None, **request: Any
    ) -> Answer:
        """Send a request without a credential, unless it has an Authorization header."""
        async with (session or self.session).request(
            method, self.url + path, allow_redirects=False, **request
        ) as response:
            text = (await response.read()).decode(errors="replace")
            return Answer(response.status, response.headers, text)

    async def as_attacker(self, method: str, path: str, **request: Any) -> Answer:
        headers = {"Authorization": self.attacker.key.authorization, **request.pop("headers", {})}
        return await self.send(method, path, headers=headers, **request)


@asynccontextmanager
async def calling_from(url: str, number: int) -> AsyncIterator[aiohttp.ClientSession]:
    """Open a session that calls from 127.0.0.<number>; for a remote service, from the usual address."""
    address = (f"127.0.0.{number}", 0) if _is_local(url) else None
    connector = aiohttp.TCPConnector(limit=0, local_addr=address)
    async with aiohttp.ClientSession(connector=connector, timeout=TIMEOUT) as session:
        yield session


@asynccontextmanager
async def opened(
    url: str,
    sizes: Sizes,
    pid: int | None = None,
    operator_token: str = "",
    token_secret: str = "",
    hostile_provider: str = "",
    clock: Callable[[], float] = perf_counter,
) -> AsyncIterator[Target]:
    """Sign up two organizations on the service, and delete what they have stored at the end."""
    connector = aiohttp.TCPConnector(limit=0)
    async with (
        aiohttp.ClientSession(connector=connector, timeout=TIMEOUT) as session,
        calling_from(url, VICTIM_FROM) as victims,
    ):
        attacker, victim = await _sign_up(session, url), await _sign_up(victims, url)
        target = Target(
            url, sizes, session, attacker, victim, pid, operator_token, token_secret, hostile_provider, clock
        )
        try:
            yield target
        finally:
            for tenant in (attacker, victim):
                await delete_all(tenant.key, "/api/defaults/documents/")
                await delete_all(tenant.key, AGENTS)


async def create_documents(client: Client, count: int, content_bytes: int) -> None:
    """Store documents that are large in the database and small on the wire."""
    content = json.dumps({"title": "Large", "content": "x" * content_bytes}).encode()
    body = gzip.compress(content, 9)
    headers = {
        "Authorization": client.authorization,
        "Content-Type": "application/json",
        "Content-Encoding": "gzip",
    }
    for start in range(0, count, 10):
        posts = (
            client.session.post(f"{client.url}/api/defaults/documents/", data=body, headers=headers)
            for _ in range(min(10, count - start))
        )
        for response in await asyncio.gather(*posts):
            response.raise_for_status()
            response.release()


async def delete_all(client: Client, path: str) -> None:
    """Delete all resources of a list, page by page, so that no large list is opened."""
    while page := await client.get(path, limit="20"):
        await asyncio.gather(*(client.status_of(f"{path}{each['id']}/", "DELETE") for each in page))


def _is_local(url: str) -> bool:
    return (urlsplit(url).hostname or "").startswith("127.")


async def _sign_up(session: aiohttp.ClientSession, url: str) -> Tenant:
    email = f"{uuid4().hex}@example.org"
    account: Json = await Client(session, url).post(
        SIGN_UP, email=email, password=PASSWORD, organization_name="Attack"
    )
    user = Client(session, url, f"Token {account['token']}")
    text = (await user.post("/api/organizations/api-keys/", name="attack"))["key"]
    key = Client(session, url, f"Bearer {text}")
    agent = await key.create_agent(debounce_window_seconds=86_400)
    return Tenant(email, account["token"], key, account["organization"]["id"], agent)
