"""The metrics for Prometheus: the figures of `/status/`, and counts of requests and notifications.

Every label has few values, all known in advance: no ids, no requested paths, no text from callers.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from prometheus_client import ProcessCollector
from prometheus_client.core import CounterMetricFamily as Counters
from prometheus_client.core import GaugeMetricFamily as Gauges
from prometheus_client.core import HistogramMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from storage.model import Outcome, Source
from storage.postgres.pool import PoolSize
from supervisors.engine.snapshot import ServiceNumbers, Spread
from supervisors.policy.phases import Phase
from web.observability.requests import BUCKET_SECONDS, Answered
from web.ports import Readiness, ServiceState

BOUNDS = (*map(str, BUCKET_SECONDS), "+Inf")


@dataclass(frozen=True, slots=True)
class Scrape(Collector):
    """The state of the service at one moment, as an unregistered collector of prometheus_client."""

    version: str
    readiness: Readiness
    numbers: ServiceNumbers
    database: PoolSize
    requests: Mapping[Answered, Sequence[float]]
    notifications: Mapping[Source, int]
    refusals: Mapping[str, int]  # by limit
    tasks: int

    def collect(self) -> Iterator[Metric]:
        """Yield every metric, including the usual ones about the process."""
        yield InfoMetricFamily("hostsvc", "The version of the service.", {"version": self.version})
        yield _filled(
            Gauges("hostsvc_state", "1 for the state that the service is in.", labels=("state",)),
            [(state, state is self.readiness.state) for state in ServiceState],
        )
        yield from _of_supervisors(self.numbers)
        yield from _of_runs(self.numbers)
        yield _filled(
            Counters(
                "hostsvc_notifications_created",
                "Notifications created by requests, inbound messages and tools.",
                labels=("source",),
            ),
            self.notifications.items(),
        )
        yield _filled(
            Counters(
                "hostsvc_limit_refusals", "What a limit of the configuration refused.", labels=("limit",)
            ),
            self.refusals.items(),
        )
        yield from _of_requests(self.requests)
        yield Gauges(
            "hostsvc_database_writable",
            "1 while the database takes trial writes, 0 during an outage.",
            int(self.readiness.can_write),
        )
        yield from _of_database(self.database)
        yield _filled(
            Gauges("hostsvc_loop_lag_seconds", "How late the event loop was.", labels=("quantile",)),
            _quantiles(self.numbers.loop_lag_ms),
        )
        yield Gauges("hostsvc_tasks", "Unfinished tasks of the event loop.", self.tasks)
        yield from ProcessCollector(registry=None).collect()


def _of_supervisors(numbers: ServiceNumbers) -> Iterator[Metric]:
    supervisors, agents, timers = numbers.supervisors, numbers.agents, numbers.timers
    yield _filled(
        Gauges("hostsvc_supervisors", "Supervisors in memory.", labels=("phase",)),
        [(phase, supervisors.by_phase.get(phase, 0)) for phase in Phase],
    )
    yield Counters(
        "hostsvc_supervisor_restarts",
        "Crashes after which a supervisor reloaded its agent.",
        supervisors.restarts,
    )
    yield Gauges(
        "hostsvc_quarantined_agents",
        "Agents in quarantine, with or without a supervisor in memory.",
        supervisors.quarantined,
    )
    yield Counters(
        "hostsvc_quarantines", "Quarantines of agents that began in this process.", numbers.quarantines
    )
    mailbox = supervisors.mailbox
    yield Gauges("hostsvc_mailbox_depth", "Messages that wait for all supervisors.", mailbox.depth)
    yield Gauges("hostsvc_mailbox_depth_max", "Messages in the longest mailbox.", mailbox.deepest)
    yield _filled(
        Gauges("hostsvc_agents", "Agents, as last counted.", labels=("status",)),
        [("running", agents.running), ("sleeping", agents.sleeping), ("archived", agents.archived)],
    )
    yield Gauges("hostsvc_timers_pending", "Agents with a next moment, as last counted.", timers.pending)
    yield _filled(
        Gauges("hostsvc_timer_lateness_seconds", "Lateness of the last 1,000 timers.", labels=("quantile",)),
        _quantiles(timers.lateness_ms),
    )
    yield Gauges(
        "hostsvc_oldest_uncleared_high_seconds",
        "Age of the oldest active notification; 0 while there is none.",
        numbers.oldest_uncleared_high_seconds or 0,
    )


def _of_runs(numbers: ServiceNumbers) -> Iterator[Metric]:
    runs, totals = numbers.runs, numbers.run_totals
    yield _filled(
        Gauges("hostsvc_runs", "Active runs and queued starts.", labels=("state",)),
        [("running", runs.running), ("queued", runs.queued)],
    )
    yield Gauges("hostsvc_runs_limit", "The maximum number of concurrent runs.", runs.limit)
    yield Counters("hostsvc_runs_started", "Runs started by this process.", totals.started)
    yield _filled(
        Counters("hostsvc_runs_ended", "Runs of this process that have ended.", labels=("outcome",)),
        [(outcome, totals.ended.get(outcome, 0)) for outcome in Outcome],
    )


def _of_requests(requests: Mapping[Answered, Sequence[float]]) -> Iterator[Metric]:
    """Yield counts by status, and durations without the status, which would multiply their series."""
    answers = Counters("hostsvc_http_requests", "Requests answered.", labels=("method", "route", "status"))
    durations: dict[tuple[str, str], list[float]] = {}
    for (method, route, status), counts in requests.items():
        answers.add_metric((method, route, str(status)), sum(counts[:-1]))
        sums = durations.get((method, route), [0.0] * len(counts))
        durations[method, route] = [a + b for a, b in zip(sums, counts, strict=True)]
    yield answers
    histogram = HistogramMetricFamily(
        "hostsvc_http_request_duration_seconds",
        "From the head of a request to its answer.",
        labels=("method", "route"),
    )
    for labels, (*counts, seconds) in durations.items():
        histogram.add_metric(labels, list(zip(BOUNDS, accumulate(counts), strict=True)), seconds)
    yield histogram


def _of_database(database: PoolSize) -> Iterator[Metric]:
    yield _filled(
        Gauges("hostsvc_database_connections", "Connections to PostgreSQL.", labels=("state",)),
        [("idle", database.idle), ("used", database.connections - database.idle)],
    )
    yield Gauges("hostsvc_database_waiting", "Callers that wait for a connection.", database.waiting)


def _quantiles(lateness: Spread) -> Iterable[tuple[str, float]]:
    """Return the quantiles in seconds, the maximum as quantile 1; none before the first measurement."""
    quantiles = (("0.5", lateness.p50), ("0.99", lateness.p99), ("1", lateness.max))
    return [(quantile, value / 1000) for quantile, value in quantiles if value is not None]


def _filled(family: Gauges | Counters, values: Iterable[tuple[str, float]]) -> Metric:
    """Add a series for each value of the label, and return the family."""
    for value, number in values:
        family.add_metric((value,), number)
    return family
