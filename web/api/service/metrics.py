"""The metrics, of the node that answers or of all."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import datetime
from enum import StrEnum

from aiohttp import web
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder

from storage.errors import StorageError
from supervisors.maintenance.loop import repeat
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
from web.observability.metrics import Scrape
from web.request.parsing import Body, read_query
from web.routes import Access, Routes
from web.settings import VERSION

routes = Routes(Access.OPERATORS)

PUBLISH_SECONDS = 5.0
LAST_SECONDS = 1.0  # for what was counted since then, when the service ends
MEDIA_TYPES = ("text/plain", "application/openmetrics-text")
REQUESTED_VERSION = re.compile(r"version=([^;,]*)")
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
    if is_last or app[NODES].count > 1:
        metrics, _ = await _collect(app, Scope.NODE)
        await app[COUNTER_SUMS].publish(metrics)


async def _collect(app: web.Application, scope: Scope) -> tuple[list[Metric], bool]:
    """Return the metrics with the counters of this node, and whether the database takes writes."""
    readiness, numbers, own = await app[HEALTH].readiness(), app[STATUS].numbers(), app[HEALTH].numbers()
    nodes, numbers_of = app[NODES], numbers_by_node(app[NODES], own)
    if scope is Scope.NODE:
        numbers_of = {nodes.node_id: own}
    has_others = len(numbers_of) > 1
    outbox, statistics = app[STORAGE].outbox, app[STATUS].statistics
    pending = app[STORAGE].parked_calls.last_pending
    scrape = Scrape(
        version=VERSION,
        readiness=readiness,
        numbers=sum_up(numbers, list(numbers_of.values())) if has_others else numbers,
        database=sum_up_connections(list(numbers_of.values())),
        requests=app[REQUEST_COUNTS].snapshot(),
        notifications=dict(app[STORAGE].notifications.created),
        occurrences=dict(app[STORAGE].schedules.outcomes),
        schedule_late_seconds=app[STORAGE].schedules.late_seconds,
        refusals={**app[RATE_LIMITS].refused(), **app[STORAGE].limits.refused()},
        usage=dict(app[STORAGE].usage.stored),
        tool_failures=dict(app[TOOLSET].failures),
        failed_messages=dict(app[TOOLSET].failed_messages),
        outbox=outbox.last_size,
        oldest_delivery_seconds=_age(app, outbox.oldest_pending_at),
        pending_approvals=pending.count,
        oldest_approval_seconds=_age(app, pending.oldest_at),
        restarts=own.supervisors.restarts,
        nodes=Counter(node.state for node in nodes.nodes.values()),
        confirmed_seconds=max(map(nodes.seconds_since_beat, numbers_of)),
        durations={
            "model_call_duration": {name: calls.durations for name, calls in statistics.model_calls.items()},
            "wake_latency": dict(statistics.wake_latencies),
            "run_duration": dict(statistics.run_durations),
            "commit_duration": app[STORAGE].pool.commits,
            "loop_delay": {"": statistics.loop_delays},
            "webhook_first_attempt": {"": outbox.first_attempts},
        },
        span_exports=dict(app[STORAGE].instance.span_exports),
        tasks=len(asyncio.all_tasks()),
        is_sum=has_others,
    )
    return await asyncio.to_thread(list, scrape.collect()), readiness.can_write


def _age(app: web.Application, since: datetime | None) -> float:
    return 0.0 if since is None else (app[CLOCK].now() - since).total_seconds()
