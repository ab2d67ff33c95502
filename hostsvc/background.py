"""The maintenance services that run as long as the service does, and their intervals."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import aiojobs
import structlog

from hostsvc.config import Config
from hostsvc.execution import Execution
from hostsvc.outbound.mail import MailRelay
from hostsvc.signals import DELIVERIES, PARKED_CALLS, WEBHOOKS, Signals
from hostsvc.span_export import SpanExport
from storage.postgres.doorbell import Doorbell
from storage.postgres.membership import Membership
from storage.service_facts import ServiceFacts
from storage.storage import Storage
from supervisors.clock import Clock, wait_for_event
from supervisors.engine.registry import Registry
from supervisors.events.feed import EventFeed
from supervisors.maintenance.database_watch import WriteProbe
from supervisors.maintenance.due_tasks import DueLook
from supervisors.maintenance.loop import repeat
from supervisors.maintenance.parked_calls import ParkedCallRunner
from supervisors.maintenance.retention_cleaner import ReceiptCleaner, RetentionCleaner
from supervisors.maintenance.scans import BudgetRenewal, DueScan, NodeWatch, PauseSync, Sweep
from supervisors.maintenance.schedules import CheckRunner, ScheduleRunner
from supervisors.maintenance.watches import AgentCounter, LoopLagProbe, StuckAgentWatch
from supervisors.maintenance.webhooks import WebhookMatcher, WebhookSender
from supervisors.policy.explanations import when

log = structlog.get_logger()

IDLE_SWEEP_SECONDS = 10.0
PURGE_SECONDS = 60.0
RETENTION_SECONDS = 3600.0
STUCK_CHECK_SECONDS = 10.0
CLOSE_SECONDS = 5.0
PROBE_PAUSE_SECONDS = 0.25
RENEWAL_SECONDS = 1800.0
CATCH_UP_SECONDS = 1.0  # minimum interval of the checks of all agents, however often the doorbell rings
WATCH_SECONDS = 0.5
MATCH_RETRY_SECONDS = 0.5
SWEEP_SECONDS = 1.0
NODE_WATCH_SECONDS = 0.1  # between two recoveries, also if the database fails them
DUE_SECONDS = 0.01  # between two looks at what is due next
PENDING_COUNT_SECONDS = 60.0  # to count 100,000 calls takes tens of milliseconds, and they wait for hours
EXPORT_SECONDS = 1.0
WRITERS_SECONDS = 0.05  # until it is looked again whether the writers before are done
CHORES_SECONDS = 1.0  # until a node notices that the chores are its own now


@dataclass(frozen=True, slots=True)
class MaintenanceService:
    """A function to call at an interval, which is 0 if the function itself waits for its next task.

    One that `counts` many rows is called less often if it takes long.
    """

    name: str
    run_once: Callable[[], Awaitable[object]]
    interval_seconds: float
    counts: bool = False


@dataclass(frozen=True, slots=True)
class Parts:
    """The open parts of a node."""

    config: Config
    storage: Storage
    execution: Execution
    registry: Registry
    membership: Membership
    signals: Signals
    scan: DueScan
    webhooks: WebhookSender
    stuck_agents: StuckAgentWatch
    writes: WriteProbe
    feed: EventFeed
    doorbell: Doorbell
    relay: MailRelay | None
    clock: Clock
    exporter: SpanExport | None


def maintenance_services(parts: Parts) -> Sequence[MaintenanceService]:
    """Build every maintenance service."""
    return (*_services_of_each_node(parts), *_services_of_one_node(parts))


def _services_of_each_node(parts: Parts) -> Sequence[MaintenanceService]:
    storage, registry, clock = parts.storage, parts.registry, parts.clock
    membership, scan, interval = parts.membership, parts.scan, parts.config.supervisors.scan_interval_seconds
    states = storage.agent_states
    pauses = PauseSync(states, storage.organizations, registry, clock, lambda: membership.does_chores)
    counter = AgentCounter(states, registry.statistics, clock)
    probe = LoopLagProbe(registry.statistics, clock)
    node_watch = NodeWatch(membership, membership.changed, scan)
    facts, pending = storage.service_facts, storage.parked_calls.refresh_pending
    sweep = Sweep(states, registry, membership)
    mail = [MaintenanceService("mail", parts.relay.run_once, 0)] if parts.relay else []
    catch_up = partial(parts.doorbell.catch_up, partial(_check_all_agents, storage, scan))

    return (
        *mail,
        MaintenanceService("node watch", node_watch.run_once, NODE_WATCH_SECONDS),
        MaintenanceService("bells", parts.signals.bells.run_once, 0),
        MaintenanceService("sweep", sweep.run_once, SWEEP_SECONDS),
        MaintenanceService("due scan", scan.run_once, interval),
        MaintenanceService("doorbell catch-up", catch_up, CATCH_UP_SECONDS),
        MaintenanceService("pause sync", pauses.run_once, interval),
        MaintenanceService("agent counter", counter.run_once, interval, counts=True),
        MaintenanceService("service measurement", partial(_measure, facts, clock), interval, counts=True),
        MaintenanceService("outbox measurement", storage.outbox.refresh_size, interval, counts=True),
        MaintenanceService("approval measurement", pending, PENDING_COUNT_SECONDS, counts=True),
        MaintenanceService("event feed", parts.feed.run_once, 0),
        MaintenanceService("write probe", parts.writes.run_once, PROBE_PAUSE_SECONDS),
        MaintenanceService("connection renewal", storage.pool.renew_connections, RENEWAL_SECONDS),
        MaintenanceService("stuck agent watch", parts.stuck_agents.run_once, STUCK_CHECK_SECONDS),
        MaintenanceService("loop lag probe", probe.run_once, 0),
        MaintenanceService("idle supervisor cleaner", partial(_drop_idle, registry), IDLE_SWEEP_SECONDS),
    )


def _services_of_one_node(parts: Parts) -> Sequence[MaintenanceService]:
    """Build the chores, which one node does for all."""
    storage, clock, interval = parts.storage, parts.clock, parts.config.supervisors.scan_interval_seconds
    budgets = BudgetRenewal(storage.agent_states, parts.registry, clock)
    receipts = ReceiptCleaner(storage.receipts, storage.throttle, clock)
    matcher = WebhookMatcher(storage.webhook_matching, parts.feed, clock)
    retention = RetentionCleaner(storage.retention, parts.config.retention, clock)
    audit = partial(storage.audit_log.chain_all, partial(clock.sleep, WRITERS_SECONDS))
    schedules = ScheduleRunner(storage.schedules, clock)
    look = DueLook(storage.due.get_next, storage.parked_calls.stored, clock)
    toolset, ask = parts.execution.toolset, parts.registry.ask
    does_chores = partial(_does_chores, parts.membership)
    checks = CheckRunner(storage, toolset, ask, clock, does_chores)
    make, longest = partial(toolset.make, ask=ask), toolset.max_call_seconds
    calls = ParkedCallRunner(storage.parked_calls, make, longest, clock, does_chores)
    chore = Chores(parts.membership, parts.signals, clock)
    send = chore(parts.webhooks.run_once, storage.outbox.stored, DELIVERIES)
    due = chore(look.run_once, storage.parked_calls.stored, PARKED_CALLS)
    match = chore(matcher.run_once, storage.webhooks.changed, WEBHOOKS)
    spans = chore(parts.exporter.run_once) if parts.exporter else None
    merge_counters = chore(lambda: storage.node_counters.merge_ended(clock.now()))

    return (
        MaintenanceService("budget renewal", chore(budgets.run_once), interval),
        MaintenanceService("due look", due, DUE_SECONDS),
        MaintenanceService("schedules", look.when_due("schedules", schedules.fire_due), 0),
        MaintenanceService("checks of schedules", look.when_due("checks", checks.run_once, checks.due), 0),
        MaintenanceService("parked calls", look.when_due("parked_calls", calls.run_once, calls.due), 0),
        MaintenanceService("tools of MCP servers", look.when_due("mcp_servers", toolset.imports.run_once), 0),
        MaintenanceService("webhook sender", send, 0),
        MaintenanceService("webhook matcher", match, MATCH_RETRY_SECONDS),
        MaintenanceService("deleted agent cleaner", chore(retention.empty_deleted_agents), PURGE_SECONDS),
        MaintenanceService("audit log", look.when_due("audit", audit), 0),
        MaintenanceService("retention cleaner", chore(retention.run_once), RETENTION_SECONDS),
        MaintenanceService("counters of ended nodes", merge_counters, RETENTION_SECONDS),
        MaintenanceService("receipt cleaner", chore(receipts.run_once), PURGE_SECONDS),
        *([MaintenanceService("span export", spans, EXPORT_SECONDS)] if spans else []),
    )


@dataclass(frozen=True, slots=True)
class Chores:
    """Wraps services that one node does for all, so that the others only pass on what is new for them."""

    membership: Membership
    signals: Signals
    clock: Clock

    def __call__(
        self, run_once: Callable[[], Awaitable[object]], news: asyncio.Event | None = None, kind: str = ""
    ) -> Callable[[], Awaitable[object]]:
        """Return the service. A node without the chores rings a bell of this kind if `news` is set."""

        async def run_here_or_ring() -> None:
            if self.membership.does_chores:
                await run_once()
            elif news is not None and await wait_for_event(news, CHORES_SECONDS, self.clock):
                news.clear()
                self.signals.ring_for_chores(kind)

        return run_here_or_ring


@asynccontextmanager
async def run_maintenance(services: Sequence[MaintenanceService], clock: Clock) -> AsyncIterator[None]:
    """Run each service at its interval, in a task of its own, until the block ends."""
    scheduler = aiojobs.Scheduler(limit=None, close_timeout=CLOSE_SECONDS, exception_handler=_log_failure)
    for service in services:
        loop = repeat(service.name, service.run_once, service.interval_seconds, clock, counts=service.counts)
        await scheduler.spawn(loop, name=service.name)
    try:
        yield
    finally:
        await scheduler.close()


async def _check_all_agents(storage: Storage, scan: DueScan) -> None:
    storage.events.written.set()
    await scan.run_once()


async def _measure(facts: ServiceFacts, clock: Clock) -> None:
    """Read the facts of the status, and log a pause of the instance that has begun or ended."""
    before = facts.last and facts.last.paused_at
    await facts.refresh(clock.now())
    if facts.last and facts.last.paused_at != before:
        if facts.last.paused_at:
            log.warning("instance paused", since=when(facts.last.paused_at), reason=facts.last.paused_because)
        else:
            log.info("instance resumed")


def _does_chores(membership: Membership) -> bool:
    return membership.does_chores


async def _drop_idle(registry: Registry) -> None:
    registry.drop_idle()


def _log_failure(_: aiojobs.Scheduler, context: dict[str, Any]) -> None:
    log.error(
        "a maintenance service has stopped",
        service=context["job"].get_name(),
        exc_info=context.get("exception"),
    )
