"""The composition root: everything the process is made of, opened in order and closed in reverse."""

import asyncio
import gc
import resource
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any
from uuid import UUID

import structlog

from hostsvc.background import standing_duties
from hostsvc.config import Config
from hostsvc.embedded_postgres import embedded_postgres
from hostsvc.execution import access_of_runs, open_execution
from hostsvc.llm.price_list import PriceList
from hostsvc.outbound.guarded_http import open_guarded_http
from storage.errors import LeadershipLost
from storage.postgres.leadership import Leadership, is_led, lead
from storage.postgres.migrations import migrate, refuse_unsafe
from storage.postgres.notify_listener import NotifyListener, open_notify_listener
from storage.postgres.pool import open_pool
from storage.storage import Storage, build_storage
from supervisors.clock import Clock, SystemClock
from supervisors.engine.messages import Signal
from supervisors.engine.registry import Registry, open_registry
from supervisors.maintenance.due_scan import DueScan
from supervisors.maintenance.stuck_agent_watch import StuckAgentWatch
from supervisors.maintenance.webhook_delivery import open_webhook_sender
from supervisors.policy.explanations import when
from web.app import build_app
from web.ports import Readiness, ServiceState
from web.server.listener import BACKLOG, serving
from web.server.standby import build_standby_app
from web.settings import WebSettings

log = structlog.get_logger()

ALLOCATIONS_BETWEEN_COLLECTIONS = 20_000
MAX_DESCRIPTORS = 65_536


@dataclass(slots=True)
class Service:
    """A service that is up: where it listens, and how it is doing."""

    base_url: str
    operator_token: str
    leadership: Leadership
    doorbell: NotifyListener
    registry: Registry
    stuck_agents: StuckAgentWatch
    draining: bool = False

    def leads(self) -> bool:
        """Whether runs may start here."""
        return self.leadership.held() and not self.draining

    def readiness(self) -> Readiness:
        """What /readyz and /status/ say."""
        if self.draining:
            return Readiness(ServiceState.DRAINING, ("The service is shutting down.",), may_serve=False)
        reasons = tuple(self._reasons())
        state = ServiceState.DEGRADED if reasons else ServiceState.READY
        return Readiness(state, reasons, may_serve=self.leadership.held())

    def _reasons(self) -> Iterator[str]:
        if not self.leadership.held():
            yield "The lead is being regained; no run starts until then."
        if self.doorbell.away_since is not None:
            yield (
                f"The doorbell is away since {when(self.doorbell.away_since)} ({self.doorbell.reason}); "
                "until it is back, rows that other programs write wait for the next scan."
            )
        yield from self.stuck_agents.reasons()


async def serve(config: Config, announce: Callable[[str], None], on_ready: Callable[[Service], None]) -> None:
    """Serve until SIGTERM or SIGINT; raises LeadershipLost if another instance takes the lead."""
    asked_to_end = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked_to_end.set)
    async with open_service(config, announce, asked_to_end) as service:
        if service is None:
            return
        announce(f"hostsvc: listening on {service.base_url}")
        on_ready(service)
        await _first_of(asked_to_end.wait(), service.leadership.lost())
        if not asked_to_end.is_set():
            service.registry.abandon()
            raise LeadershipLost("another instance has taken the lead; this one ends")


@asynccontextmanager
async def open_service(
    config: Config, announce: Callable[[str], None], asked_to_end: asyncio.Event
) -> AsyncIterator[Service | None]:
    """A service that is up and leads; None if it was asked to end while it was standing by.

    On leaving, runs are let to end at a turn boundary for `server.drain_seconds`, and everything is stored.
    """
    config.require_models()
    _allow_descriptors()
    clock, prices = SystemClock(), PriceList()
    random = Random()  # noqa: S311 -- spreads load, keeps no secret
    async with AsyncExitStack() as stack:
        listener = stack.enter_context(_listen(config.server.host, config.server.port))
        base_url = config.server.base_url or _url_of(listener)
        database = config.database.url or await stack.enter_async_context(
            embedded_postgres(config.database.data_dir, clock)
        )
        await refuse_unsafe(database)
        await migrate(database)
        leadership = await _stand_by(stack, listener, database, clock, announce, base_url, asked_to_end)
        if leadership is None:
            yield None
            return
        pool = await stack.enter_async_context(
            open_pool(config.database.pool_settings(database), epoch=leadership.epoch)
        )

        def tell_supervisors(agent_ids: Sequence[UUID]) -> None:
            registry.tell_all(agent_ids, Signal.NOTIFIED)

        def tell_of_clearings(agent_ids: Sequence[UUID]) -> None:
            registry.tell_all(agent_ids, Signal.CLEARED)

        storage = build_storage(pool, on_commit=tell_supervisors, on_clear=tell_of_clearings)
        stack.push_async_callback(storage.close)
        outbound = await stack.enter_async_context(open_guarded_http(config.outbound, clock))
        webhooks = await stack.enter_async_context(
            open_webhook_sender(storage.outbox, outbound, clock, random)
        )
        settings = await _web_settings(config, storage)
        access = access_of_runs(config, settings.token_secret, _url_of(listener), clock)
        execution = await stack.enter_async_context(
            open_execution(config, storage, outbound, prices, clock, access)
        )
        registry = await stack.enter_async_context(
            open_registry(
                store=storage.agent_states,
                harness=execution.harness,
                clock=clock,
                supervisor_settings=config.supervisors,
                run_settings=config.runs,
                random=random,
            )
        )
        scan = DueScan(storage.agent_states, registry, clock, random)
        # It listens before the scan looks, so that no row of another program falls between the two.
        doorbell = await stack.enter_async_context(
            open_notify_listener(database, tell_supervisors, scan.run_once, clock)
        )
        stuck_agents = StuckAgentWatch(storage.agent_states, clock)
        service = Service(base_url, settings.operator_token, leadership, doorbell, registry, stuck_agents)
        await scan.recover()
        await stack.enter_async_context(
            standing_duties(config, storage, registry, scan, webhooks, stuck_agents, service.leads, clock)
        )
        app = build_app(
            storage=storage,
            registry=registry,
            toolbox=execution.toolbox,
            clock=clock,
            prices=prices,
            schema_checker=execution.schema_checker,
            settings=settings,
            readiness=service.readiness,
        )
        await stack.enter_async_context(serving(app, listener))
        _settle_memory()
        try:
            yield service
        finally:
            service.draining = True
            await registry.drain(config.server.drain_seconds)


async def _stand_by(
    stack: AsyncExitStack,
    listener: socket.socket,
    database: str,
    clock: Clock,
    announce: Callable[[str], None],
    base_url: str,
    asked_to_end: asyncio.Event,
) -> Leadership | None:
    """The lead, once it is to be had; meanwhile the process says that it is alive and serves nothing."""
    async with serving(build_standby_app(), listener):
        if await is_led(database):
            announce(f"hostsvc: standing by on {base_url}")
        candidacy = asyncio.ensure_future(stack.enter_async_context(lead(database, clock.sleep)))
        await _first_of(asked_to_end.wait(), asyncio.wait({candidacy}))
        if not candidacy.done():
            candidacy.cancel()
            await asyncio.wait({candidacy})
            return None
        return candidacy.result()


async def _web_settings(config: Config, storage: Storage) -> WebSettings:
    return WebSettings(
        token_secret=config.accounts.token_secret or await storage.instance.token_secret(),
        operator_token=config.operator.token or await storage.instance.operator_token(),
        open_metrics=config.operator.open_metrics,
        signup_open=config.accounts.signup == "open",
        token_days=config.accounts.token_days,
        body_bytes=config.limits.body_bytes,
        span_metadata_bytes=config.limits.span_metadata_bytes,
        trusted_proxies=config.server.trusted_proxies,
        base_url=config.server.base_url,
    )


def _listen(host: str, port: int) -> socket.socket:
    """The listening socket: open from the start, so a port in use is found out before anything else."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG)


def _url_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _allow_descriptors() -> None:
    """Each client and each run that waits for its model is a descriptor; the usual limit of 1,024 is soft."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < MAX_DESCRIPTORS:
        most = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _settle_memory() -> None:
    """What is alive now stays, so no collection need look at it again; and requests leave few circles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(ALLOCATIONS_BETWEEN_COLLECTIONS)


async def _first_of(*waits: Any) -> None:
    """Return when the first of them does."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
