"""What a scraper is told: the numbers that `/status/` has in memory, and what is counted besides.

A label has few values, all known beforehand: no ids, no paths as they were sent, no text of a caller's.
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
from supervisors.engine.snapshot import Overview, Spread
from supervisors.policy.phases import Phase
from web.observability.request_counts import BUCKET_SECONDS, Answered
from web.ports import ServiceState

BOUNDS = (*map(str, BUCKET_SECONDS), "+Inf")


@dataclass(frozen=True, slots=True)
class Scrape(Collector):
    """The service at one moment, in the form that prometheus_client writes out. Nothing of it is global."""

    version: str
    state: ServiceState
    overview: Overview
    database: PoolSize
    requests: Mapping[Answered, Sequence[float]]
    notifications: Mapping[Source, int]

    def collect(self) -> Iterator[Metric]:
        """Every family, those that any Prometheus client has of its process among them."""
        yield InfoMetricFamily("hostsvc", "Which version serves.", {"version": self.version})
        yield _filled(
            Gauges("hostsvc_state", "1 for the state that the service is in.", labels=("state",)),
            [(state, state is self.state) for state in ServiceState],
        )
        yield from _of_supervisors(self.overview)
        yield from _of_runs(self.overview)
        yield _filled(
            Counters(
                "hostsvc_notifications_created",
                "Notifications taken in by the API, with messages or from tools.",
                labels=("source",),
            ),
            self.notifications.items(),
        )
        yield from _of_requests(self.requests)
        yield from _of_database(self.database)
        yield _filled(
            Gauges("hostsvc_loop_lag_seconds", "How late the event loop was.", labels=("quantile",)),
            _quantiles(self.overview.loop_lag_ms),
        )
        yield from ProcessCollector(registry=None).collect()


def _of_supervisors(overview: Overview) -> Iterator[Metric]:
    supervisors, agents, timers = overview.supervisors, overview.agents, overview.timers
    yield _filled(
        Gauges("hostsvc_supervisors", "Supervisors in memory.", labels=("phase",)),
        [(phase, supervisors.by_phase.get(phase, 0)) for phase in Phase],
    )
    yield Counters(
        "hostsvc_supervisor_restarts",
        "Defects after which a supervisor looked at its agent anew.",
        supervisors.restarts,
    )
    mailbox = supervisors.mailbox
    yield Gauges("hostsvc_mailbox_depth", "Messages that wait for all supervisors.", mailbox.depth)
    yield Gauges("hostsvc_mailbox_depth_max", "Those that wait for any one of them.", mailbox.deepest)
    yield _filled(
        Gauges("hostsvc_agents", "Agents, as counted last.", labels=("status",)),
        [("running", agents.running), ("sleeping", agents.sleeping), ("archived", agents.archived)],
    )
    yield Gauges("hostsvc_timers_pending", "Agents with a next moment, as counted last.", timers.pending)
    yield _filled(
        Gauges(
            "hostsvc_timer_lateness_seconds", "How late the last thousand alarms rang.", labels=("quantile",)
        ),
        _quantiles(timers.lateness_ms),
    )
    yield Gauges(
        "hostsvc_oldest_uncleared_high_seconds",
        "Age of the oldest active notification; 0 while there is none.",
        overview.oldest_uncleared_high_seconds or 0,
    )


def _of_runs(overview: Overview) -> Iterator[Metric]:
    runs, totals = overview.runs, overview.run_totals
    yield _filled(
        Gauges("hostsvc_runs", "Runs under way, and starts in line.", labels=("state",)),
        [("running", runs.running), ("queued", runs.queued)],
    )
    yield Gauges("hostsvc_runs_limit", "How many runs there may be at once.", runs.limit)
    yield Counters("hostsvc_runs_started", "Runs that began in this process.", totals.started)
    yield _filled(
        Counters("hostsvc_runs_ended", "Those of them that are over.", labels=("outcome",)),
        [(outcome, totals.ended.get(outcome, 0)) for outcome in Outcome],
    )


def _of_requests(requests: Mapping[Answered, Sequence[float]]) -> Iterator[Metric]:
    """How many by status; how fast without it, which would make several times as many series."""
    answers = Counters("hostsvc_http_requests", "Requests answered.", labels=("method", "route", "status"))
    durations: dict[tuple[str, str], list[float]] = {}
    for (method, route, status), counts in requests.items():
        answers.add_metric((method, route, str(status)), sum(counts[:-1]))
        so_far = durations.get((method, route), [0.0] * len(counts))
        durations[method, route] = [a + b for a, b in zip(so_far, counts, strict=True)]
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
    """In seconds, the largest as quantile 1; none before the first alarm."""
    shown = (("0.5", lateness.p50), ("0.99", lateness.p99), ("1", lateness.max))
    return [(quantile, milliseconds / 1000) for quantile, milliseconds in shown if milliseconds is not None]


def _filled(family: Gauges | Counters, values: Iterable[tuple[str, float]]) -> Metric:
    """The family with a series for each value of its label."""
    for value, number in values:
        family.add_metric((value,), number)
    return family
