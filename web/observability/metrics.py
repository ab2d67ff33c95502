"""The metrics for Prometheus: the figures of `/status/`, and counts of requests and notifications.

Every label has few values, known in advance: no requested paths, no text from callers. Only usage is told by
organization and model, which callers may name: for a few models of each, a few hundred pairs in all.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeVar

from prometheus_client import ProcessCollector
from prometheus_client.core import CounterMetricFamily as Counters
from prometheus_client.core import GaugeMetricFamily as Gauges
from prometheus_client.core import HistogramMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from storage.channels.messages import Channel
from storage.delivery.outbox import OutboxSize
from storage.histogram import Histogram
from storage.history.usage import Spender, StoredUsage
from storage.model import Outcome, Source
from storage.postgres.pool import PoolSize
from supervisors.engine.snapshot import ServiceNumbers
from supervisors.policy.phases import Phase
from web.observability.requests import BUCKET_SECONDS, Answered
from web.ports import Readiness, ServiceState

Value = TypeVar("Value", bound=str)

NODE_STATES = ("alive", "leaving", "condemned")
# Histograms in seconds: the label of each, blank for none, and its text.
DURATIONS = {
    "model_call_duration": ("provider", "Calls of models in ended runs."),
    "wake_latency": ("reason", "From when an agent was due until its run started."),
    "run_duration": ("outcome", "Runs, from start to end."),
    "commit_duration": ("group", "Writes that many requests share, with their commits."),
    "loop_delay": ("", "How late the event loop was, measured once a second."),
    "webhook_first_attempt": ("", "From when deliveries were due until their first attempt ended."),
}
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
    occurrences: Mapping[str, int]  # of schedules, by outcome
    schedule_late_seconds: float
    refusals: Mapping[str, int]  # by limit
    usage: Mapping[Spender, StoredUsage]
    tool_failures: Mapping[str, int]
    failed_messages: Mapping[Channel, int]
    outbox: OutboxSize
    oldest_delivery_seconds: float
    pending_approvals: int
    oldest_approval_seconds: float
    restarts: int  # of supervisors of this node
    nodes: Mapping[str, int]  # by state
    confirmed_seconds: float
    durations: Mapping[str, Mapping[str, Histogram]]  # by DURATIONS and label
    span_exports: Mapping[str, int]  # by outcome
    tasks: int
    is_sum: bool  # over several nodes; then counters are of this node only, until they are replaced

    def collect(self) -> Iterator[Metric]:
        """Yield every metric, of one node including the usual ones about the process."""
        yield InfoMetricFamily("hostsvc", "The version of the service.", {"version": self.version})
        states = {state: state is self.readiness.state for state in ServiceState}
        yield _filled(Gauges, "hostsvc_state", "1 for the state that the service is in.", "state", states)
        yield from _of_nodes(self.nodes, self.confirmed_seconds)
        yield from _of_supervisors(self.numbers, self.restarts)
        yield from _of_runs(self.numbers)
        text = "Notifications created by requests, inbound messages and tools."
        yield _filled(Counters, "hostsvc_notifications_created", text, "source", self.notifications)
        text = "What became of the moments of schedules."
        yield _filled(Counters, "hostsvc_schedule_occurrences", text, "outcome", self.occurrences)
        text = "How late notifications of schedules were, in all."
        yield Counters("hostsvc_schedule_late_seconds", text, self.schedule_late_seconds)
        text = "What a limit of the configuration refused."
        yield _filled(Counters, "hostsvc_limit_refusals", text, "limit", self.refusals)
        yield from _of_work(self)
        yield from _of_usage(self.usage)
        yield _answers(self.requests)
        text = "1 while the database takes trial writes, 0 during an outage."
        yield Gauges("hostsvc_database_writable", text, int(self.readiness.can_write))
        connections = {"idle": self.database.idle, "used": self.database.connections - self.database.idle}
        text = "Connections to PostgreSQL."
        yield _filled(Gauges, "hostsvc_database_connections", text, "state", connections)
        text = "Callers that wait for a connection."
        yield Gauges("hostsvc_database_waiting", text, self.database.waiting)
        yield from _of_durations(self.durations)
        yield _request_durations(self.requests)
        text = "Spans that the receiver of OpenTelemetry took or refused; runs skipped; attempts failed."
        yield _filled(Counters, "hostsvc_span_exports", text, "outcome", self.span_exports)
        if not self.is_sum:
            yield Gauges("hostsvc_tasks", "Unfinished tasks of the event loop.", self.tasks)
            yield from ProcessCollector(registry=None).collect()


def _of_nodes(nodes: Mapping[str, int], confirmed_seconds: float) -> Iterator[Metric]:
    states = {state: nodes.get(state, 0) for state in NODE_STATES}
    yield _filled(Gauges, "hostsvc_nodes", "Nodes that are not dead.", "state", states)
    text = "Seconds since a beat of the node was seen; of several the longest."
    yield Gauges("hostsvc_node_confirmed_seconds", text, confirmed_seconds)


def _of_supervisors(numbers: ServiceNumbers, restarts: int) -> Iterator[Metric]:
    supervisors, agents, timers = numbers.supervisors, numbers.agents, numbers.timers
    phases = {phase: supervisors.by_phase.get(phase, 0) for phase in Phase}
    yield _filled(Gauges, "hostsvc_supervisors", "Supervisors in memory.", "phase", phases)
    text = "Crashes after which a supervisor reloaded its agent."
    yield Counters("hostsvc_supervisor_restarts", text, restarts)
    text = "Agents in quarantine, with or without a supervisor in memory."
    yield Gauges("hostsvc_quarantined_agents", text, supervisors.quarantined)
    text = "Quarantines of agents that began."
    yield Counters("hostsvc_quarantines", text, numbers.quarantines)
    mailbox = supervisors.mailbox
    yield Gauges("hostsvc_mailbox_depth", "Messages that wait for all supervisors.", mailbox.depth)
    yield Gauges("hostsvc_mailbox_depth_max", "Messages in the longest mailbox.", mailbox.deepest)
    counts = {"running": agents.running, "sleeping": agents.sleeping, "archived": agents.archived}
    yield _filled(Gauges, "hostsvc_agents", "Agents, as last counted.", "status", counts)
    text = "Agents whose limits on wakes or quiet hours hold a start, as last counted."
    yield Gauges("hostsvc_agents_held_by_limits", text, agents.held_by_limits)
    yield Gauges("hostsvc_timers_pending", "Agents with a next moment, as last counted.", timers.pending)
    text = "Age of the oldest active notification; 0 while there is none."
    yield Gauges("hostsvc_oldest_uncleared_high_seconds", text, numbers.oldest_uncleared_high_seconds or 0)


def _of_runs(numbers: ServiceNumbers) -> Iterator[Metric]:
    runs, totals = numbers.runs, numbers.run_totals
    states = {"running": runs.running, "queued": runs.queued}
    yield _filled(Gauges, "hostsvc_runs", "Active runs and queued starts.", "state", states)
    yield Gauges("hostsvc_runs_limit", "The maximum number of concurrent runs.", runs.limit)
    yield Counters("hostsvc_runs_started", "Runs started.", sum(totals.wakes.values()))
    text = "Runs started, by wake reason."
    yield _filled(Counters, "hostsvc_wakes", text, "reason", totals.wakes)
    ended = {outcome: totals.ended.get(outcome, 0) for outcome in Outcome}
    text = "Runs that have ended."
    yield _filled(Counters, "hostsvc_runs_ended", text, "outcome", ended)


def _of_work(scrape: Scrape) -> Iterator[Metric]:
    """Yield what models, tools, messages and webhooks took and how they failed."""
    calls = scrape.numbers.run_totals.model_calls
    errors = {provider: counted.errors for provider, counted in calls.items()}
    yield _filled(Counters, "hostsvc_model_call_errors", "Calls of models that failed.", "provider", errors)
    text = "Calls of tools that failed, by built-in tool."
    yield _filled(Counters, "hostsvc_tool_errors", text, "tool", scrape.tool_failures)
    text = "Attempts to send a message that failed."
    yield _filled(Counters, "hostsvc_messages_failed", text, "channel", scrape.failed_messages)
    states = {"pending": scrape.outbox.pending, "failed": scrape.outbox.failed}
    text = "Deliveries that wait or were given up."
    yield _filled(Gauges, "hostsvc_webhook_deliveries", text, "state", states)
    text = "Age of the oldest delivery that waits; 0 while there is none."
    yield Gauges("hostsvc_oldest_webhook_delivery_seconds", text, scrape.oldest_delivery_seconds)
    text = "Calls and questions of agents that wait for a person, as last counted."
    yield Gauges("hostsvc_pending_approvals", text, scrape.pending_approvals)
    text = "Age of the oldest of them; 0 while there is none."
    yield Gauges("hostsvc_oldest_pending_approval_seconds", text, scrape.oldest_approval_seconds)


def _of_durations(durations: Mapping[str, Mapping[str, Histogram]]) -> Iterator[Metric]:
    for name, (label, text) in DURATIONS.items():
        family = HistogramMetricFamily(f"hostsvc_{name}_seconds", text, labels=(label,) if label else ())
        for value, histogram in durations[name].items():
            sums = zip((*map(str, histogram.bounds), "+Inf"), accumulate(histogram.counts), strict=True)
            family.add_metric((value,) if label else (), list(sums), histogram.seconds)
        yield family


def _of_usage(usage: Mapping[Spender, StoredUsage]) -> Iterator[Metric]:
    text = "Tokens of model calls; cached ones are among the input."
    tokens = Counters("hostsvc_model_tokens", text, labels=("organization", "model", "kind"))
    costs = Counters(
        "hostsvc_model_cost_usd", "Cost of model calls, where known.", labels=("organization", "model")
    )
    for spender, used in usage.items():
        tokens.add_metric((*spender, "input"), used.input_tokens)
        tokens.add_metric((*spender, "output"), used.output_tokens)
        tokens.add_metric((*spender, "cached"), used.cached_tokens)
        costs.add_metric(spender, float(used.cost_usd))
    yield tokens
    yield costs


def _answers(requests: Mapping[Answered, Sequence[float]]) -> Metric:
    answers = Counters("hostsvc_http_requests", "Requests answered.", labels=("method", "route", "status"))
    for (method, route, status), counts in requests.items():
        answers.add_metric((method, route, str(status)), sum(counts[:-1]))
    return answers


def _request_durations(requests: Mapping[Answered, Sequence[float]]) -> Metric:
    """Return durations without the status, which would multiply their series."""
    durations: dict[tuple[str, str], list[float]] = {}
    for (method, route, _), counts in requests.items():
        sums = durations.get((method, route), [0.0] * len(counts))
        durations[method, route] = [a + b for a, b in zip(sums, counts, strict=True)]
    name, text = "hostsvc_http_request_duration_seconds", "From the head of a request to its answer."
    histogram = HistogramMetricFamily(name, text, labels=("method", "route"))
    for labels, (*counts, seconds) in durations.items():
        histogram.add_metric(labels, list(zip(BOUNDS, accumulate(counts), strict=True)), seconds)
    return histogram


def _filled(
    kind: type[Gauges | Counters], name: str, text: str, label: str, values: Mapping[Value, float]
) -> Metric:
    """Return a metric that has a series for each value of its label."""
    family = kind(name, text, labels=(label,))
    for value, number in values.items():
        family.add_metric((value,), number)
    return family
