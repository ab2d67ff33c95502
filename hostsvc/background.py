"""What is done every few seconds for as long as the service is up."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiojobs
import structlog

from hostsvc.config import Config
from storage.storage import Storage
from supervisors.clock import Clock
from supervisors.engine.registry import Registry
from supervisors.maintenance.agent_counter import AgentCounter
from supervisors.maintenance.budget_renewal import BudgetRenewal
from supervisors.maintenance.due_scan import DueScan
from supervisors.maintenance.leadership_gate import LeadershipGate
from supervisors.maintenance.loop import repeat
from supervisors.maintenance.loop_lag import LoopLagProbe
from supervisors.maintenance.pause_sync import PauseSync
from supervisors.maintenance.receipt_cleaner import ReceiptCleaner
from supervisors.maintenance.retention_cleaner import RetentionCleaner
from supervisors.maintenance.stuck_agent_watch import StuckAgentWatch
from supervisors.maintenance.webhook_delivery import WebhookSender

log = structlog.get_logger()

LEAD_POLL_SECONDS = 0.25
IDLE_SWEEP_SECONDS = 10.0
PURGE_SECONDS = 60.0
RETENTION_SECONDS = 3600.0
STUCK_CHECK_SECONDS = 10.0
CLOSE_SECONDS = 5.0


@asynccontextmanager
async def standing_duties(
    config: Config,
    storage: Storage,
    registry: Registry,
    scan: DueScan,
    webhooks: WebhookSender,
    stuck_agents: StuckAgentWatch,
    leads: Callable[[], bool],
    clock: Clock,
) -> AsyncIterator[None]:
    """`leads`: whether runs may start here."""
    interval = config.supervisors.scan_interval_seconds
    lead = LeadershipGate(leads, registry, scan)
    pauses = PauseSync(storage.agent_states, storage.organizations, registry, clock)
    budgets = BudgetRenewal(storage.agent_states, registry, clock)
    counting = AgentCounter(storage.agent_states, registry.statistics, clock)
    retention = RetentionCleaner(storage.expired, config.retention, clock)
    scheduler = aiojobs.Scheduler(limit=None, close_timeout=CLOSE_SECONDS, exception_handler=_log_failure)

    async def drop_idle() -> None:
        registry.drop_idle()

    for name, run_once, seconds in (
        ("lead", lead.run_once, LEAD_POLL_SECONDS),
        ("due scan", scan.run_once, interval),
        ("pauses", pauses.run_once, interval),
        ("budgets", budgets.run_once, interval),
        ("counting", counting.run_once, interval),
        ("outbox", storage.outbox.measure, interval),
        ("webhooks", webhooks.run_once, 0),
        ("forgotten agents", stuck_agents.run_once, STUCK_CHECK_SECONDS),
        ("loop lag", LoopLagProbe(registry.statistics, clock).run_once, 0),
        ("idle supervisors", drop_idle, IDLE_SWEEP_SECONDS),
        ("deleted agents", retention.empty_deleted_agents, PURGE_SECONDS),
        ("retention", retention.run_once, RETENTION_SECONDS),
        ("receipts", ReceiptCleaner(storage.receipts, clock).run_once, PURGE_SECONDS),
    ):
        await scheduler.spawn(repeat(name, run_once, seconds, clock), name=name)
    try:
        yield
    finally:
        await scheduler.close()


def _log_failure(_: aiojobs.Scheduler, context: dict[str, Any]) -> None:
    log.error("a duty ended", duty=repr(context.get("job")), exc_info=context.get("exception"))
