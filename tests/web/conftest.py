"""The HTTP interface with real storage, a real registry and a real socket."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.message import EmailMessage
from functools import cache, partial
from random import Random
from typing import Any, cast, get_type_hints
from uuid import UUID

import pytest
from aiohttp import ClientSession, web

from hostsvc.background import MaintenanceService, run_maintenance
from hostsvc.llm.price_list import PriceList
from hostsvc.outbound.guarded_http import OutboundSettings, open_guarded_http
from hostsvc.signals import STREAMS, Signals
from storage.encryption import KEY_BYTES, SecretCipher
from storage.errors import StorageError
from storage.ids import new_id
from storage.model import ApiKey, Organization, Outcome, User
from storage.postgres.bells import Bells
from storage.postgres.doorbell import Doorbell
from storage.postgres.membership import Membership, join
from storage.postgres.pool import DatabaseSettings, Pool, open_pool
from storage.storage import Storage
from supervisors.clock import Clock, SystemClock
from supervisors.engine.messages import Signal
from supervisors.engine.registry import Registry
from supervisors.engine.run import ActiveRun, Ask, RunResult
from supervisors.events.feed import EventFeed
from supervisors.json_schema.checker import open_schema_checker
from supervisors.llm.catalog import ModelCatalog
from supervisors.llm.port import IMAGE_TYPES
from supervisors.maintenance.scans import Sweep
from supervisors.rewind.rewinds import Rewinds
from supervisors.settings import RunSettings, SupervisorSettings
from supervisors.timeline.timelines import Timelines
from supervisors.tools.parking import ResultAddresses
from supervisors.tools.toolset import Toolset
from supervisors.wake_context import WakeContexts
from tests.acceptance.client import eventually
from tests.cheap_passwords import CHEAP
from tests.leaks import Overheard
from tests.nodes import NODES, LoneNode, ring_nobody
from tests.postgres import TestServer
from web import app_keys
from web.app import ROUTES, add_api_routes, add_interface
from web.credentials import passwords
from web.credentials.formats import make_key
from web.mail import MAIL, Mail, Write
from web.node_numbers import NodeNumbers
from web.openapi.document import build_document
from web.ports import HarnessStatus, Readiness, ServiceState
from web.request import unknown_names
from web.server.listener import serving as listening
from web.settings import ConnectionSettings, LimitSettings, WebSettings

OPERATOR_TOKEN = "operator-token-of-the-tests"
SETTINGS = WebSettings(
    token_secret="s" * 48,
    operator_token=OPERATOR_TOKEN,
    limits=LimitSettings(anonymous_requests_per_minute=0),
)
CONNECTIONS = ConnectionSettings()
ROLES = ("http", "runs", "chores")


Address = tuple[str, int]


class EndlessHarness:
    """A harness that works until the run is stopped, also after its sleep, as processes may."""

    async def execute(self, run: ActiveRun, ask: Ask) -> RunResult:
        run.may_linger = True
        await run.interruptible(asyncio.Event().wait())
        return RunResult(Outcome.ENDED)


@dataclass(frozen=True)
class Answer:
    status: int
    body: Any
    headers: Any = field(repr=False)


class Api:
    """A client with one credential."""

    def __init__(self, client: ClientSession, authorization: str | None = None) -> None:
        self.client = client
        self.authorization = authorization

    def with_authorization(self, authorization: str | None) -> "Api":
        return Api(self.client, authorization)

    async def request(self, method: str, path: str, **options: Any) -> Answer:
        headers = {"Accept": "application/json", **options.pop("headers", {})}
        if self.authorization is not None:
            headers.setdefault("Authorization", self.authorization)
        async with self.client.request(
            method, path, headers=headers, allow_redirects=False, **options
        ) as response:
            is_json = response.content_type == "application/json"
            body = await response.json() if is_json and method != "HEAD" else await response.text()
            return Answer(response.status, body, response.headers)

    async def get(self, path: str, **options: Any) -> Answer:
        return await self.request("GET", path, **options)

    async def post(self, path: str, body: Any = None, **options: Any) -> Answer:
        return await self.request("POST", path, json=body, **options)

    async def patch(self, path: str, body: Any = None, **options: Any) -> Answer:
        return await self.request("PATCH", path, json=body, **options)

    async def delete(self, path: str, **options: Any) -> Answer:
        return await self.request("DELETE", path, **options)

    async def create(self, path: str, **body: Any) -> Any:
        answer = await self.post(path, body)
        assert answer.status == 201, answer
        return answer.body

    async def create_agent(self, **body: Any) -> Any:
        return await self.create("/api/cloud/agents/", **{"name": "Ann", "model": "builtin/inbox", **body})

    async def create_template(self, **body: Any) -> Any:
        return await self.create("/api/templates/", **{"name": "Clerk", **body})

    async def create_notification(self, agent: Any, **body: Any) -> Any:
        return await self.create(
            "/api/defaults/notifications/", **{"agent": agent["id"], "title": "Hello", **body}
        )


class Letters:
    """A relay that keeps what it is asked to write."""

    def __init__(self) -> None:
        self.asked: list[Write] = []

    def send_later(self, write: Write) -> None:
        self.asked.append(write)

    async def written(self) -> list[EmailMessage]:
        """Write the letters that wait, and return those that there are."""
        asked, self.asked = self.asked, []
        return [letter for letter in [await write() for write in asked] if letter]


class Service:
    """The running application, and the parts behind it."""

    def __init__(
        self,
        app: web.Application,
        address: Address,
        client: ClientSession,
        storage: Storage,
        registry: Registry,
        health: "StatedHealth",
    ) -> None:
        self.app = app
        self.address = address
        self.client = client
        self.storage = storage
        self.registry = registry
        self.health = health
        self.letters = Letters()
        self.nodes: Sequence[Service] = (self,)

    def node_of_run(self, agent_id: UUID, run_id: UUID) -> "Service":
        """Return the node at which a run goes on."""
        return next(node for node in self.nodes if node.registry.is_run_alive(agent_id, run_id))

    async def wait_until_idle(self) -> None:
        """Wait until no supervisor of any node handles messages."""
        for node in self.nodes:
            await node.registry.wait_until_idle()

    def refuse_starts(self) -> None:
        """Let no node start runs, as while all of them shut down."""
        for node in self.nodes:
            node.registry.allow_starts(False)

    @property
    def nobody(self) -> Api:
        return Api(self.client)

    @property
    def operator(self) -> Api:
        return Api(self.client, f"Bearer {OPERATOR_TOKEN}")

    async def new_organization(self) -> Api:
        """Return a client with an API key of a new organization, without hashing a password."""
        now = datetime.now(UTC)
        organization = Organization(new_id(), "Acme", now)
        user = User(new_id(), f"{organization.id}@example.com", "Ann", "!", 1, now)
        await self.storage.accounts.insert_account(user, organization)
        secret = make_key()
        key = ApiKey(new_id(), organization.id, "tests", secret.prefix, True, None, now)
        await self.storage.api_keys.insert(key, secret.hash)
        return Api(self.client, f"Bearer {secret.text}")


async def wake_reasons(api: Api, agent: Any, *reasons: str) -> None:
    """Wait until the agent has runs with these wake reasons, the newest first. Any node may start them."""

    async def look() -> bool | None:
        runs = (await api.get(f"/api/cloud/agents/{agent['id']}/runs/")).body
        return [run["wake_reason"] for run in runs] == list(reasons) or None

    await eventually(look, f"runs because of {reasons}")


async def in_phase(api: Api, agent: Any, phase: str) -> None:
    """Wait until the agent is in this phase. Any node may bring it there."""

    async def look() -> bool | None:
        return (await api.get(f"/api/cloud/agents/{agent['id']}/supervisor/")).body["phase"] == phase or None

    await eventually(look, f"the phase {phase}")


class StatedHealth:
    """The health that a test states; it collects the refusals reported to it."""

    def __init__(self) -> None:
        self.stated = Readiness(ServiceState.READY)
        self.stuck: dict[UUID, datetime] = {}
        self.refusals: list[StorageError] = []
        self.told: Callable[[], NodeNumbers] = NodeNumbers

    async def readiness(self) -> Readiness:
        return self.stated

    def forgotten(self) -> dict[UUID, datetime]:
        return self.stuck

    def numbers(self) -> NodeNumbers:
        return self.told()

    def report_refusal(self, error: StorageError) -> None:
        self.refusals.append(error)


StartService = Callable[..., Awaitable[Service]]


cached_type_hints = cache(get_type_hints)


@cache
def api_document() -> Any:
    return build_document(ROUTES)


@cache
def api_resources(limits: LimitSettings) -> Sequence[web.AbstractResource]:
    """Return the paths of the API with their routes, which belong to no service."""
    router = web.UrlDispatcher()
    add_api_routes(router, limits)
    return list(router.resources())


def register_api(router: web.UrlDispatcher, limits: LimitSettings) -> None:
    for resource in api_resources(limits):
        router.register_resource(resource)


@contextmanager
def cheap_start_and_passwords() -> Iterator[None]:
    """Build routes and API document once for all services; hash passwords at the lowest cost of argon2."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("web.app.add_api_routes", register_api)
        patch.setattr("web.openapi.document.build_document", lambda routes: api_document())
        patch.setattr(unknown_names, "get_type_hints", cached_type_hints)
        for name, value in CHEAP.items():
            patch.setattr(passwords, name, value)
        yield


@asynccontextmanager
async def reading(feed: EventFeed, clock: Clock) -> AsyncIterator[None]:
    """Have the feed read the log, as the maintenance services do."""
    async with run_maintenance([MaintenanceService("event feed", feed.run_once, 0)], clock):
        yield


@asynccontextmanager
async def ringing(
    signals: Signals, membership: Membership, url: str, feed: EventFeed, clock: Clock
) -> AsyncIterator[None]:
    """Let a node tell the others what it has committed, and hear what they tell."""
    storage, registry = signals.storage, signals.registry
    signals.bells = Bells(storage.pool, lambda: len(membership.nodes), clock.sleep)
    storage.pool.on_write = signals.on_write
    membership.facts = lambda: {STREAMS: feed.size > 0}
    doorbell = Doorbell(
        signals.on_ring, clock.now, lambda _: None, node_id=membership.node_id, on_bell=signals.on_bell
    )
    sweep = Sweep(storage.agent_states, registry, membership)
    services = [
        MaintenanceService("bells", signals.bells.run_once, 0),
        MaintenanceService("sweep", sweep.run_once, 1.0),
    ]
    async with doorbell.listening(url, clock.sleep), run_maintenance(services, clock):
        yield


@asynccontextmanager
async def serving(
    pool: Pool,
    settings: WebSettings,
    contents: Callable[[], str],
    connections: ConnectionSettings = CONNECTIONS,
    membership: Membership | None = None,
    url: str = "",
) -> AsyncIterator[Service]:
    """Compose the parts like the composition root, with a harness that never ends.

    Without a membership it is the only node; others hear each other on the database at `url`.
    At the end neither the log nor the contents of the database may have a secret in them.
    """

    def on_commit(agent_ids: Iterable[UUID]) -> None:
        registry.tell_all(agent_ids, Signal.NOTIFIED)

    health = StatedHealth()
    clock, cipher = SystemClock(), SecretCipher([b"k" * KEY_BYTES])
    models = ModelCatalog({"builtin", "openai"}, "builtin", PriceList())
    nodes = membership or LoneNode()
    signals = Signals(membership) if membership else None
    storage = Storage(
        pool,
        on_commit=signals.on_commit if signals else on_commit,
        on_clear=signals.on_clear if signals else lambda _: None,
        sleep=clock.sleep,
        cipher=cipher,
        node_count=lambda: len(nodes.nodes),
    )
    async with (
        open_guarded_http(OutboundSettings(allow_private=True), clock) as outbound,
        open_schema_checker(clock) as checker,
        Registry(
            store=storage.agent_states,
            harness=EndlessHarness(),
            clock=clock,
            supervisor_settings=SupervisorSettings(),
            run_settings=RunSettings(),
            random=Random(1),  # noqa: S311 (jitter)
            nodes=nodes,
            ring=signals.ring if signals else ring_nobody,
            models=models,
        ) as registry,
    ):
        health.told = lambda: NodeNumbers.of(
            registry.status.numbers(), pool.size(), registry.free_slots, "http://node"
        )
        overheard = Overheard()
        feed = EventFeed(storage.events, clock)
        async with AsyncExitStack() as stack, reading(feed, clock):
            if membership and signals:
                signals.storage, signals.registry = storage, registry
                await stack.enter_async_context(ringing(signals, membership, url, feed, clock))
            stack.enter_context(cheap_start_and_passwords())
            letters = Letters()
            app = web.Application()
            app[app_keys.STORAGE] = storage
            app[app_keys.REGISTRY] = registry
            app[app_keys.NODES] = nodes
            app[app_keys.EVENT_FEED] = feed
            app[app_keys.STATUS] = registry.status
            app[app_keys.TIMELINES] = Timelines(
                storage.phase_events, storage.mark_events, storage.schedules, registry.status, clock, 30
            )
            app[app_keys.REWINDS] = Rewinds(storage.recorded_events, storage.phase_events, clock, 30)
            app[app_keys.TOOLSET] = Toolset(
                storage, clock, outbound, checker, models, ResultAddresses("", settings.token_secret)
            )
            app[app_keys.WAKES] = WakeContexts(storage, clock, RunSettings(), {"builtin": IMAGE_TYPES})
            app[app_keys.CLOCK] = clock
            app[app_keys.PRICES] = PriceList()
            app[app_keys.MODELS] = models
            app[app_keys.SCHEMA_CHECKER] = checker
            app[app_keys.SETTINGS] = settings
            app[app_keys.HEALTH] = health
            app[app_keys.HARNESS] = lambda: HarnessStatus("builtin")
            app[MAIL] = Mail(letters.send_later, storage.accounts, clock, settings.base_url)
            add_interface(app)
            app.on_response_prepare.append(overheard.note_answer)
            stack.enter_context(overheard.listening())
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            await stack.enter_async_context(listening(app, listener, settings=connections))
            address: Address = listener.getsockname()
            client = await stack.enter_async_context(ClientSession(f"http://127.0.0.1:{address[1]}"))
            service = Service(app, address, client, storage, registry, health)
            service.letters = letters
            yield service
    await pool.finish_writes()
    overheard.refuse_secrets("the log", "\n".join(overheard.lines))
    overheard.refuse_secrets("the database", contents())


@asynccontextmanager
async def serving_nodes(
    url: str,
    settings: WebSettings,
    contents: Callable[[], str],
    connections: ConnectionSettings = CONNECTIONS,
) -> AsyncIterator[Service]:
    """Compose as many nodes as HOSTSVC_TEST_NODES says. Each request goes to a random one of them."""
    async with AsyncExitStack() as stack:
        memberships: list[Membership] = []
        services: list[Service] = []
        for number in range(NODES):
            joining = join(url, asyncio.sleep, name=f"node {number}", version="test", roles=ROLES)
            membership = await stack.enter_async_context(joining)
            pool = await stack.enter_async_context(open_pool(DatabaseSettings(url=url), node=membership))
            node = serving(pool, settings, contents, connections, membership, url)
            services.append(await stack.enter_async_context(node))
            memberships.append(membership)
        while any(len(membership.nodes) < NODES for membership in memberships):  # noqa: ASYNC110 -- a beat tells it
            await asyncio.sleep(0.01)
        first = services[0]
        for service in services:  # as behind a proxy, so that links are the same
            service.client.headers["Host"] = f"127.0.0.1:{first.address[1]}"
        client = cast("ClientSession", AnyClient([service.client for service in services]))
        together = Service(first.app, first.address, client, first.storage, first.registry, first.health)
        together.nodes = services
        yield together


class AnyClient:
    """A client session of a random node for each request."""

    def __init__(self, clients: Sequence[ClientSession]) -> None:
        self._clients = clients
        self._random = Random(NODES)  # noqa: S311

    def __getattr__(self, name: str) -> Any:
        return getattr(self._random.choice(self._clients), name)


def changed_settings(**changes: Any) -> WebSettings:
    """Return the settings with changes to them and to their limits, by name."""
    limits = {name: changes.pop(name) for name in LimitSettings.__slots__ if name in changes}
    return replace(SETTINGS, limits=replace(SETTINGS.limits, **limits), **changes)


@pytest.fixture
async def start_service(
    pool: Pool, database_url: str, postgres_server: TestServer
) -> AsyncIterator[StartService]:
    """Start the service with other settings."""
    contents = partial(postgres_server.contents, database_url)
    async with AsyncExitStack() as stack:

        async def start(connections: ConnectionSettings = CONNECTIONS, **changes: Any) -> Service:
            settings = changed_settings(**changes)
            if NODES > 1:
                nodes = serving_nodes(database_url, settings, contents, connections)
                return await stack.enter_async_context(nodes)
            return await stack.enter_async_context(serving(pool, settings, contents, connections))

        yield start


@pytest.fixture
async def service(start_service: StartService) -> Service:
    return await start_service()


@pytest.fixture
async def api(service: Service) -> Api:
    """Return a client with a key of one organization."""
    return await service.new_organization()


@pytest.fixture
async def other(service: Service) -> Api:
    """Return a client with a key of another organization."""
    return await service.new_organization()
