"""The metrics, of the node that answers or of all."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from datetime import datetime
from enum import StrEnum
from typing import Any

from aiohttp import web
from prometheus_client import ProcessCollector
from prometheus_client.core import InfoMetricFamily, Metric
from prometheus_client.exposition import choose_encoder

from storage.errors import StorageError
from storage.model import Outcome
from storage.storage import Storage
from supervisors.engine.inspection import Statistics
from supervisors.engine.snapshot import ServiceNumbers
from supervisors.maintenance.loop import repeat
from supervisors.policy.phases import Phase
from web.access.auth import authenticate_scraper
from web.api.service.status import numbers_by_node
from web.app_keys import (
    CLOCK,
    COUNTER_SUMS,
    HEALTH,
    NODES,
    RATE_LIMITS,
    REQUEST_COUNTS,
    STATUS,
    STORAGE,
    TOOLSET,
)
from web.fields import Choice
from web.node_numbers import sum_up, sum_up_connections
from web.observability.counter_sums import Collected, with_sums
from web.observability.metrics import families, request_durations
from web.ports import ServiceState
from web.request.parsing import Body, read_query
from web.routes import Access, Routes
from web.settings import VERSION

routes = Routes(Access.OPERATORS)

PUBLISH_SECONDS = 5.0
LAST_SECONDS = 1.0  # for what was counted since then, when the service ends
MEDIA_TYPES = ("text/plain", "application/openmetrics-text")
REQUESTED_VERSION = re.compile(r"version=([^;,]*)")
NODE_STATES = ("alive", "leaving", "condemned")
SUPPORTED_VERSIONS = frozenset({"0.0.1", "0.0.4", "1.0.0"})


class Scope(StrEnum):
    """What the metrics are about."""

    SERVICE = "service"
    """All nodes: gauges are sums, of lateness the worst; counters also have what ended nodes have counted.
    While several nodes live, there are no figures of processes."""
    NODE = "node"
    """The node that answers, since its start."""


class MetricsQuery(Body):
    scope = Choice(Scope, load_default=Scope.SERVICE)
    """All nodes, or the one that answers."""


@routes.get(
    "/metrics",
    answer=str,
    media_types=MEDIA_TYPES,
    authenticate=authenticate_scraper,
    is_rate_limited=False,
    query=MetricsQuery,
)
async def get_metrics(request: web.Request) -> web.Response:
    """Return the metrics in the text format of Prometheus, or in OpenMetrics if `Accept` asks for it."""
    app, accept, scope = request.app, request.headers.get("Accept", ""), read_query(request)["scope"]
    # Collect and encode in threads: with every route in use it takes tens of milliseconds.
    metrics, can_write = await _collect(app, scope)
    if scope is Scope.SERVICE:
        sums = await app[COUNTER_SUMS].read(metrics, can_write=can_write)
        metrics = list(with_sums(metrics, sums))
    # prometheus_client repeats the requested version, and fails on one that does not consist of numbers.
    if not SUPPORTED_VERSIONS.issuperset(REQUESTED_VERSION.findall(accept)):
        accept = ""
    encode, content_type = choose_encoder(accept)
    body = await asyncio.to_thread(encode, Collected(metrics))
    return web.Response(body=body, headers={"Content-Type": content_type})


async def publish_counters(app: web.Application) -> AsyncIterator[None]:
    """Store this node's counters from time to time while there are others, and a last time at its end."""
    task = asyncio.create_task(
        repeat("counters", lambda: _publish(app), PUBLISH_SECONDS, app[CLOCK]), name="counters"
    )
    yield
    task.cancel()
    await asyncio.wait({task})
    with suppress(StorageError, TimeoutError):
        async with asyncio.timeout(LAST_SECONDS):
            await _publish(app, is_last=True)


async def _publish(app: web.Application, *, is_last: bool = False) -> None:
    if is_last or len(app[NODES].nodes) > 1:
        metrics, _ = await _collect(app, Scope.NODE)
        await app[COUNTER_SUMS].publish(metrics)


async def _collect(app: web.Application, scope: Scope) -> tuple[list[Metric], bool]:
    """Return the metrics with the counters of this node, and whether the database takes writes."""
    readiness, numbers, own = await app[HEALTH].readiness(), app[STATUS].numbers(), app[HEALTH].numbers()
    nodes = app[NODES]
    numbers_of = numbers_by_node(nodes, own) if scope is Scope.SERVICE else {nodes.node_id: own}
    states = Counter(node.state for node in nodes.nodes.values())
    database, requests = sum_up_connections(list(numbers_of.values())), app[REQUEST_COUNTS].snapshot()
    values: dict[str, Any] = {
        "state": {state: state is readiness.state for state in ServiceState},
        "nodes": {state: states[state] for state in NODE_STATES},
        "node_confirmed_seconds": max(map(nodes.seconds_since_beat, numbers_of)),
        "supervisor_restarts": own.supervisors.restarts,
        "database_writable": readiness.can_write,
        "database_connections": {"idle": database.idle, "used": database.connections - database.idle},
        "database_waiting": database.waiting,
        **_of_statistics(app[STATUS].statistics),
        **_of_storage(app[STORAGE], app[CLOCK].now()),
        "limit_refusals": {**app[RATE_LIMITS].refused(), **app[STORAGE].limits.refused()},
        "tool_errors": dict(app[TOOLSET].failures),
        "messages_failed": dict(app[TOOLSET].failed_messages),
        "http_requests": {answered: sum(counts[:-1]) for answered, counts in requests.items()},
        "http_request_duration_seconds": request_durations(requests),
    }
    of_process = None
    if len(numbers_of) > 1:
        values |= _of_service(sum_up(numbers, list(numbers_of.values())))
    else:
        values |= _of_service(numbers) | {"tasks": len(asyncio.all_tasks())}
        of_process = ProcessCollector(registry=None)
    return await asyncio.to_thread(_list_metrics, values, of_process), readiness.can_write


def _list_metrics(values: Mapping[str, Any], of_process: ProcessCollector | None) -> list[Metric]:
    """Return the metrics, with those of the process, which lists all its descriptors for that."""
    info = InfoMetricFamily("hostsvc", "The version of the service.", {"version": VERSION})
    return [info, *families(values), *(of_process.collect() if of_process else ())]


def _of_service(numbers: ServiceNumbers) -> dict[str, Any]:
    supervisors, agents, runs = numbers.supervisors, numbers.agents, numbers.runs
    return {
        "supervisors": {phase: supervisors.by_phase.get(phase, 0) for phase in Phase},
        "quarantined_agents": supervisors.quarantined,
        "mailbox_depth": supervisors.mailbox.depth,
        "mailbox_depth_max": supervisors.mailbox.deepest,
        "agents": {"running": agents.running, "sleeping": agents.sleeping, "archived": agents.archived},
        "agents_held_by_limits": agents.held_by_limits,
        "timers_pending": numbers.timers.pending,
        "oldest_uncleared_high_seconds": numbers.oldest_uncleared_high_seconds or 0,
        "runs": {"running": runs.running, "queued": runs.queued},
        "runs_limit": runs.limit,
    }


def _of_statistics(counted: Statistics) -> dict[str, Any]:
    calls = counted.model_calls
    return {
        "quarantines": counted.quarantines,
        "runs_started": counted.wakes.total(),
        "wakes": dict(counted.wakes),
        "runs_ended": {outcome: counted.ended_runs[outcome] for outcome in Outcome},
        "model_call_errors": {provider: of_provider.errors for provider, of_provider in calls.items()},
        "model_call_duration_seconds": {name: of_provider.durations for name, of_provider in calls.items()},
        "wake_latency_seconds": dict(counted.wake_latencies),
        "run_duration_seconds": dict(counted.run_durations),
        "loop_delay_seconds": counted.loop_delays,
    }


def _of_storage(storage: Storage, now: datetime) -> dict[str, Any]:
    outbox, pending, spent = storage.outbox, storage.parked_calls.last_pending, dict(storage.usage.stored)
    tokens = {
        (*spender, kind): getattr(used, f"{kind}_tokens")
        for spender, used in spent.items()
        for kind in ("input", "output", "cached")
    }
    return {
        "notifications_created": dict(storage.notifications.created),
        "schedule_occurrences": dict(storage.schedules.outcomes),
        "schedule_late_seconds": storage.schedules.late_seconds,
        "webhook_deliveries": {"pending": outbox.last_size.pending, "failed": outbox.last_size.failed},
        "oldest_webhook_delivery_seconds": _age(outbox.oldest_pending_at, now),
        "pending_approvals": pending.count,
        "oldest_pending_approval_seconds": _age(pending.oldest_at, now),
        "model_tokens": tokens,
        "model_cost_usd": {spender: float(used.cost_usd) for spender, used in spent.items()},
        "commit_duration_seconds": storage.pool.commits,
        "webhook_first_attempt_seconds": outbox.first_attempts,
        "span_exports": dict(storage.instance.span_exports),
    }


def _age(since: datetime | None, now: datetime) -> float:
    return 0.0 if since is None else (now - since).total_seconds()
