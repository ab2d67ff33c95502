"""The composition root: opens all parts of the process in order, and closes them in reverse order."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from random import Random
from typing import Any, TypeVar
from uuid import UUID

import structlog
from aiohttp import web

from hostsvc.background import WATCH_SECONDS, MaintenanceService, Parts, maintenance_services, run_maintenance
from hostsvc.backup import migrate_safely
from hostsvc.config import Config, DatabaseChoice
from hostsvc.database import (
    encryption_notice,
    open_cipher_of_service,
    open_database,
    require_keys,
    wait_for_database,
)
from hostsvc.execution import Execution, approval_link, open_execution, run_credentials
from hostsvc.listeners import Listeners, open_listeners
from hostsvc.operating_system import (
    connection_settings,
    raise_descriptor_limit,
    return_large_blocks,
    tune_garbage_collection,
)
from hostsvc.outbound.guarded_http import open_guarded_http
from hostsvc.outbound.mail import MailRelay
from hostsvc.process_end import EndRequest, end_on_signals, force_end_after
from hostsvc.process_harness.harness import RunCredentials
from hostsvc.signals import FOLLOWED, MAX_FOLLOWED, STREAMS, Signals
from hostsvc.span_export import SpanExport, open_span_export
from hostsvc.workers import Worker
from storage.agents.agents import Agents
from storage.errors import NodeEnded, NodesRemain, StorageError
from storage.organization_limits import OrganizationLimits
from storage.postgres.bells import Bells
from storage.postgres.membership import Membership, join, wait_until_one_left
from storage.postgres.pool import open_pool
from storage.storage import Storage
from supervisors.clock import Clock, SystemClock, first_of
from supervisors.engine.registry import Registry
from supervisors.events.feed import EventFeed
from supervisors.llm.catalog import ModelCatalog
from supervisors.maintenance.database_watch import DatabaseWatch, Part, WriteProbe
from supervisors.maintenance.scans import DueScan
from supervisors.maintenance.watches import StuckAgentWatch
from supervisors.maintenance.webhooks import ApprovalLink, open_webhook_sender
from supervisors.policy.explanations import when, why_instance_paused
from supervisors.rewind.rewinds import Rewinds
from supervisors.timeline.timelines import Timelines
from web import app_keys
from web.app import add_interface
from web.mail import MAIL, Mail
from web.node_numbers import NodeNumbers
from web.ports import Health, Readiness, ServiceState
from web.server.listener import serving
from web.server.waiting import build_waiting_app
from web.settings import VERSION, WebSettings

log = structlog.get_logger()

CLOSE_SECONDS = 3.0  # to close everything; nothing more can be stored, so nothing is lost after it

Result = TypeVar("Result")
Serving = Callable[[web.Application], AbstractAsyncContextManager[None]]


@dataclass(slots=True)
class Service:
    """A running service: its address and its state."""

    base_url: str
    operator_token: str
    node_url: str  # at which this very node answers
    parts: Parts
    notice: str = ""  # for the operator, logged at the start
    draining: bool = False
    app: web.Application = field(init=False)

    def forgotten(self) -> Mapping[UUID, datetime]:
        """Return the agents that nothing will start although something is active, and since when."""
        return self.parts.stuck_agents.forgotten()

    def report_refusal(self, error: StorageError) -> None:
        """Count a request that was refused because of the database."""
        if not self.draining:  # what is refused then is refused by us
            self.parts.writes.count_refusal(error)

    async def readiness(self) -> Readiness:
        """Return the state that /readyz and /status/ show, after a write unless one has just been tried."""
        if self.draining:
            return Readiness(ServiceState.DRAINING, ("The service is shutting down.",), may_serve=False)
        await self.parts.writes.check()
        reasons = tuple(self._reasons())
        state = ServiceState.DEGRADED if reasons else ServiceState.READY
        can_write = self.parts.writes.failing_since is None
        return Readiness(state, reasons, self.parts.membership.is_confirmed and can_write, can_write)

    def numbers(self) -> NodeNumbers:
        """Return what this node tells the others of itself."""
        registry, database = self.parts.registry, self.parts.storage.pool.size()
        return NodeNumbers.of(registry.status.numbers(), database, registry.free_slots, self.node_url)

    def facts(self) -> Mapping[str, Any]:
        """Return what a beat publishes to the other nodes."""
        feed = self.parts.feed
        facts = {STREAMS: feed.size > 0, FOLLOWED: feed.followed(MAX_FOLLOWED)}
        return facts | self.numbers().publish()

    def _reasons(self) -> Iterator[str]:
        writes = self.parts.writes
        if writes.failing_since is not None:  # all else that needs the database fails with it
            since = when(writes.failing_since)
            yield f"The database has been unavailable since {since}: {writes.reason}."
        else:
            yield from self._lost_connections()
        if (facts := self.parts.storage.service_facts.last) and facts.paused_at:
            yield why_instance_paused(facts.paused_at, facts.paused_because)
        yield from self.parts.stuck_agents.reasons()

    def _lost_connections(self) -> Iterator[str]:
        if not self.parts.membership.is_confirmed:
            yield "The database has not confirmed this node for a moment; no run starts until it does."
        doorbell = self.parts.doorbell
        if doorbell.away_since is not None:
            since = when(doorbell.away_since)
            yield (
                f"The doorbell has been away since {since} ({doorbell.reason}); "
                "until it is back, rows that other programs write wait for the next scan."
            )


async def serve(
    config: Config,
    on_ready: Callable[[Service], None],
    *,
    worker: Worker | None = None,
    wait_for_database_seconds: float = 0.0,
) -> None:
    """Serve until SIGTERM or SIGINT, or until the parent of a worker ends.

    Raise NodeEnded if others find this node dead, or if its beat fails.
    """
    end, clock = end_on_signals(worker.parent if worker else None), SystemClock()
    began = clock.monotonic()
    log.info(
        "service starting",
        version=VERSION,
        configuration=list(config.origins),
        database=config.database.name,
        address=f"{config.server.host}:{config.server.port}",
    )
    must_wait = config.database.url and wait_for_database_seconds
    if not must_wait or await wait_for_database(config.database, wait_for_database_seconds, end, clock):
        await _serve_until_end(config, on_ready, end, began, worker)
    log.info("service stopped", duration_seconds=_seconds_since(began, clock))


async def _serve_until_end(
    config: Config,
    on_ready: Callable[[Service], None],
    end: EndRequest,
    began: float,
    worker: Worker | None,
) -> None:
    with ExitStack() as forced_end:
        async with open_service(config, end, worker) as service:
            if service is None:
                return
            if service.notice:
                log.warning(service.notice)
            ready_after = _seconds_since(began, SystemClock())
            log.info("service ready", address=service.base_url, duration_seconds=ready_after)
            on_ready(service)
            membership = service.parts.membership
            await first_of(end.requested.wait(), membership.wait_until_ended())
            if not end.requested.is_set():
                reason = membership.end_reason
                service.parts.registry.abandon()
                forced_end.callback(force_end_after(CLOSE_SECONDS, reason).cancel)
                raise NodeEnded(reason)


def _seconds_since(moment: float, clock: Clock) -> float:
    return round(clock.monotonic() - moment, 3)


@asynccontextmanager
async def open_service(
    config: Config, end: EndRequest, worker: Worker | None = None
) -> AsyncIterator[Service | None]:
    """Yield a service, or None if its end was requested while it waited for nodes of another version.

    On exit, runs have `server.drain_seconds` to end at a turn boundary, and everything is stored. A second
    request to end interrupts them at once.
    """
    config.require_models()
    return_large_blocks()
    connections = connection_settings(config, raise_descriptor_limit())
    async with AsyncExitStack() as stack:
        listeners = stack.enter_context(open_listeners(config, worker.listener if worker else None))

        def serve_app(app: web.Application) -> AbstractAsyncContextManager[None]:
            return serving(app, *listeners.sockets, settings=connections)

        clock = SystemClock()
        watch = DatabaseWatch(clock)
        watching = MaintenanceService("database watch", watch.run_once, WATCH_SECONDS)
        await stack.enter_async_context(run_maintenance([watching], clock))
        database = await stack.enter_async_context(open_database(config, may_create=True))
        opening = Opening(stack, config, clock, listeners, serve_app, database, watch)
        membership = await _migrate_and_join(opening, end.requested)
        if membership is None:
            yield None
            return
        service = await _open_node(opening, membership)
        tune_garbage_collection()
        try:
            yield service
        finally:
            service.draining = True
            if membership.others:
                await membership.leave()
            await _drain(service.parts.registry, config.server.drain_seconds, end)
            await service.parts.feed.close()  # ends the streams, for which the server would wait otherwise


@dataclass(frozen=True, slots=True)
class Opening:
    """What the parts of a process are opened with, and the stack that closes them."""

    stack: AsyncExitStack
    config: Config
    clock: SystemClock
    listeners: Listeners
    serve_app: Serving
    database: str  # its URL
    watch: DatabaseWatch

    async def enter(self, part: AbstractAsyncContextManager[Result]) -> Result:
        """Open a part that is closed in its turn."""
        return await self.stack.enter_async_context(part)


async def _migrate_and_join(opening: Opening, end_requested: asyncio.Event) -> Membership | None:
    """Wait until no living node forbids it, migrate and join. Return None if the end is requested first."""
    database, clock, report = opening.database, opening.clock, partial(opening.watch.report, Part.DATABASE)
    reason = ""
    while not end_requested.is_set():
        try:
            await _migrate(opening.config.database, database)
            await require_keys(opening.config.accounts.encryption_keys, database)
            return await _unless(end_requested, opening.enter(_joining(opening)))
        except NodesRemain as error:
            if str(error) != reason:
                reason = str(error)
                log.warning("waiting until nodes have left", reason=reason)
            async with opening.serve_app(build_waiting_app(reason)):
                leaving = wait_until_one_left(database, error.node_ids, clock.sleep, report)
                await _unless(end_requested, leaving)
    return None


async def _unless(end_requested: asyncio.Event, awaitable: Awaitable[Result]) -> Result | None:
    """Return the result of the awaitable, or None if the end of the process is requested first."""
    task = asyncio.ensure_future(awaitable)
    await first_of(task, end_requested.wait())
    await asyncio.wait({task})
    return None if task.cancelled() else task.result()


async def _migrate(choice: DatabaseChoice, database: str) -> None:
    clock = SystemClock()
    began = clock.monotonic()
    applied = await migrate_safely(choice, database, clock.now())
    log.info("database migrated", applied=applied, duration_seconds=_seconds_since(began, clock))


async def _drain(registry: Registry, seconds: float, end: EndRequest) -> None:
    clock = SystemClock()
    began = clock.monotonic()
    log.info("drain begun", runs=registry.active_runs, drain_seconds=seconds)
    result = await registry.drain(seconds, end.hurried)
    log.info(
        "drain done",
        ended=result.ended,
        interrupted=result.interrupted,
        duration_seconds=_seconds_since(began, clock),
    )


def _joining(opening: Opening) -> AbstractAsyncContextManager[Membership]:
    node, clock = opening.config.node, SystemClock()  # not the node's, which is corrected by the server's
    return join(
        opening.database,
        clock.sleep,
        partial(opening.watch.report, Part.DATABASE),
        name=node.name_or_host,
        version=VERSION,
        roles=node.roles,
        now=clock.now,
    )


async def _open_node(opening: Opening, membership: Membership) -> Service:
    """Open storage, execution, supervisors, maintenance and the API of a node."""
    config, clock, listeners, signals = opening.config, opening.clock, opening.listeners, Signals(membership)
    membership.correct = clock.correct
    storage, notice = await _open_storage(opening, membership, signals)
    settings = await web_settings(config, storage)
    credentials = run_credentials(config, settings.token_secret, listeners.node_url, clock, listeners.url)
    link = approval_link(credentials.results.base_url, settings.token_secret)
    parts = await _open_parts(opening, storage, membership, signals, credentials, link)
    base_url = config.server.base_url or listeners.url
    service = Service(base_url, settings.operator_token, listeners.node_url, parts, notice)
    service.app = build_application(parts, settings, service)
    await _begin_work(opening, service)
    await opening.enter(opening.serve_app(service.app))
    return service


async def _open_parts(
    opening: Opening,
    storage: Storage,
    membership: Membership,
    signals: Signals,
    credentials: RunCredentials,
    link: ApprovalLink,
) -> Parts:
    """Open execution and supervisors, and what signals them."""
    config, clock, enter = opening.config, opening.clock, opening.enter
    writes = WriteProbe(storage.instance, clock, opening.watch)
    storage.pool.on_failure = writes.suspect
    membership.report = partial(writes.report_connection, Part.BEAT)
    random = Random()  # noqa: S311 -- spreads load, protects no secret
    feed = EventFeed(storage.events, clock)
    signals.connect(storage, Bells(storage.pool, lambda: len(membership.nodes), clock.sleep), feed)
    outbound = await enter(open_guarded_http(config.outbound, clock))
    webhooks = await enter(open_webhook_sender(storage.outbox, outbound, clock, random, link))
    until = membership.trusted_until
    execution = await enter(open_execution(config, storage, feed, outbound, clock, credentials, until))
    if execution.models:
        await warn_of_missing_providers(execution.models, storage.agents)
    registry = await enter(_build_registry(config, storage, execution, membership, signals, clock, random))
    signals.registry = registry
    scan = DueScan(storage.agent_states, registry, membership, clock, random)
    # Listen before scanning, so that no row of another program is missed in between.
    doorbell = signals.doorbell(clock.now, partial(writes.report_connection, Part.DOORBELL))
    await enter(doorbell.listening(opening.database, clock.sleep))
    stuck_agents = StuckAgentWatch(storage.agent_states, clock)
    exporter = await _open_exporter(opening, storage)
    relay = MailRelay(config.mail) if config.mail.host else None
    opened = signals, scan, webhooks, stuck_agents, writes, feed, doorbell, relay, clock, exporter
    return Parts(config, storage, execution, registry, membership, *opened)


async def _open_exporter(opening: Opening, storage: Storage) -> SpanExport | None:
    """Open the export of spans; None if the environment names no receiver."""
    config, counts = opening.config, storage.instance.span_exports
    if config.otlp is None:
        return None
    return await opening.enter(open_span_export(config, config.otlp, opening.database, counts, opening.clock))


async def _begin_work(opening: Opening, service: Service) -> None:
    """Tell the other nodes of this one, recover what waits, and start the maintenance services."""
    parts = service.parts
    parts.membership.facts = service.facts
    parts.membership.changed.clear()
    await parts.scan.recover()
    await opening.enter(run_maintenance(maintenance_services(parts), parts.clock))


async def _open_storage(opening: Opening, membership: Membership, signals: Signals) -> tuple[Storage, str]:
    """Open the storage of a node; return it with a notice about its encryption, if any."""
    config, clock = opening.config, opening.clock
    pool = await opening.enter(open_pool(config.database.pool_settings(opening.database), node=membership))
    cipher = await open_cipher_of_service(config.accounts.encryption_keys, pool, clock.now())

    storage = Storage(
        pool,
        on_commit=signals.on_commit,
        on_clear=signals.on_clear,
        sleep=clock.sleep,
        cipher=cipher,
        spans_per_trace=config.limits.spans_per_trace,
        limits=OrganizationLimits(pool, config.limits, clock.monotonic, lambda: len(membership.nodes)),
        node_count=lambda: len(membership.nodes),
    )
    return storage, await encryption_notice(cipher, pool)


async def warn_of_missing_providers(models: ModelCatalog, agents: Agents) -> None:
    """Log which agents name a model provider that the configuration does not have: their runs will fail."""
    for provider, count in (await agents.count_by_provider()).items():
        if provider not in models.providers:
            log.warning("agents use a model provider that is not configured", provider=provider, agents=count)


def _build_registry(
    config: Config,
    storage: Storage,
    execution: Execution,
    membership: Membership,
    signals: Signals,
    clock: Clock,
    random: Random,
) -> Registry:
    return Registry(
        store=storage.agent_states,
        harness=execution.harness,
        clock=clock,
        supervisor_settings=config.supervisors,
        run_settings=config.runs,
        random=random,
        nodes=membership,
        ring=signals.ring,
        node_name=membership.name_of,
        max_runs_per_organization=config.limits.concurrent_runs,
        models=execution.models,
    )


async def web_settings(config: Config, storage: Storage) -> WebSettings:
    """Return the settings of the API. Secrets that the configuration leaves out are those of the instance."""
    return WebSettings(
        token_secret=config.accounts.token_secret or await storage.instance.token_secret(),
        operator_token=config.operator.token or await storage.instance.operator_token(),
        limits=config.limits,
        open_metrics=config.operator.open_metrics,
        signup_open=config.accounts.signup == "open",
        token_days=config.accounts.token_days,
        trusted_proxies=config.server.trusted_proxies,
        base_url=config.server.base_url,
    )


def build_application(parts: Parts, settings: WebSettings, health: Health) -> web.Application:
    """Build the API over the parts that are open."""
    storage, registry, execution, clock = parts.storage, parts.registry, parts.execution, parts.clock
    kept_days, phases = parts.config.retention.events, storage.phase_events
    app = web.Application()
    app[app_keys.STORAGE] = storage
    app[app_keys.REGISTRY] = registry
    app[app_keys.NODES] = parts.membership
    app[app_keys.EVENT_FEED] = parts.feed
    app[app_keys.STATUS] = registry.status
    app[app_keys.TIMELINES] = Timelines(
        phases, storage.mark_events, storage.schedules, registry.status, clock, kept_days
    )
    app[app_keys.REWINDS] = Rewinds(storage.recorded_events, phases, clock, kept_days)
    app[app_keys.TOOLSET] = execution.toolset
    app[app_keys.WAKES] = execution.wakes
    app[app_keys.CLOCK] = clock
    app[app_keys.PRICES] = execution.prices
    app[app_keys.MODELS] = execution.models
    app[app_keys.SCHEMA_CHECKER] = execution.schema_checker
    app[app_keys.SETTINGS] = settings
    app[app_keys.HEALTH] = health
    app[app_keys.HARNESS] = execution.harness_status
    relay, base_url = parts.relay, settings.base_url
    app[MAIL] = Mail(relay.send_later, storage.accounts, clock, base_url) if relay else None
    add_interface(app)
    return app
