"""The metrics for Prometheus: the figures of `/status/`, and counts of requests and notifications.

Every label has few values, known in advance: no requested paths, no text from callers. Only usage is told by
organization and model, which callers may name: for a few models of each, a few hundred pairs in all.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from storage.histogram import Histogram
from web.observability.requests import BUCKET_SECONDS, Answered

# The texts of the metrics by their names, without the prefix but with the labels of their series.
GAUGES = {
    "state{state}": "1 for the state that the service is in.",
    "nodes{state}": "Nodes that are not dead.",
    "node_confirmed_seconds": "Seconds since a beat of the node was seen; of several the longest.",
    "supervisors{phase}": "Supervisors in memory.",
    "quarantined_agents": "Agents in quarantine, with or without a supervisor in memory.",
    "mailbox_depth": "Messages that wait for all supervisors.",
    "mailbox_depth_max": "Messages in the longest mailbox.",
    "agents{status}": "Agents, as last counted.",
    "agents_held_by_limits": "Agents whose limits on wakes or quiet hours hold a start, as last counted.",
    "timers_pending": "Agents with a next moment, as last counted.",
    "oldest_uncleared_high_seconds": "Age of the oldest active notification; 0 while there is none.",
    "runs{state}": "Active runs and queued starts.",
    "runs_limit": "The maximum number of concurrent runs.",
    "webhook_deliveries{state}": "Deliveries that wait or were given up.",
    "oldest_webhook_delivery_seconds": "Age of the oldest delivery that waits; 0 while there is none.",
    "pending_approvals": "Calls and questions of agents that wait for a person, as last counted.",
    "oldest_pending_approval_seconds": "Age of the oldest of them; 0 while there is none.",
    "database_writable": "1 while the database takes trial writes, 0 during an outage.",
    "database_connections{state}": "Connections to PostgreSQL.",
    "database_waiting": "Callers that wait for a connection.",
    "tasks": "Unfinished tasks of the event loop.",
}
COUNTERS = {
    "supervisor_restarts": "Crashes after which a supervisor reloaded its agent.",
    "quarantines": "Quarantines of agents that began.",
    "runs_started": "Runs started.",
    "wakes{reason}": "Runs started, by wake reason.",
    "runs_ended{outcome}": "Runs that have ended.",
    "notifications_created{source}": "Notifications created by requests, inbound messages and tools.",
    "schedule_occurrences{outcome}": "What became of the moments of schedules.",
    "schedule_late_seconds": "How late notifications of schedules were, in all.",
    "limit_refusals{limit}": "What a limit of the configuration refused.",
    "model_call_errors{provider}": "Calls of models that failed.",
    "tool_errors{tool}": "Calls of tools that failed, by built-in tool.",
    "messages_failed{channel}": "Attempts to send a message that failed.",
    "model_tokens{organization,model,kind}": "Tokens of model calls; cached ones are among the input.",
    "model_cost_usd{organization,model}": "Cost of model calls, where known.",
    "http_requests{method,route,status}": "Requests answered.",
    "span_exports{outcome}": "Spans that the receiver of OpenTelemetry took or refused; runs skipped; "
    "attempts failed.",
}
HISTOGRAMS = {
    "model_call_duration_seconds{provider}": "Calls of models in ended runs.",
    "wake_latency_seconds{reason}": "From when an agent was due until its run started.",
    "run_duration_seconds{outcome}": "Runs, from start to end.",
    "commit_duration_seconds{group}": "Writes that many requests share, with their commits.",
    "loop_delay_seconds": "How late the event loop was, measured once a second.",
    "webhook_first_attempt_seconds": "From when deliveries were due until their first attempt ended.",
    "http_request_duration_seconds{method,route}": "From the head of a request to its answer.",
}
KINDS = {GaugeMetricFamily: GAUGES, CounterMetricFamily: COUNTERS, HistogramMetricFamily: HISTOGRAMS}


def families(values: Mapping[str, Any]) -> Iterator[Metric]:
    """Yield the metrics that have values: a number or a histogram, or one for each value of the labels."""
    for kind, texts in KINDS.items():
        for place, text in texts.items():
            name, *labels = place.rstrip("}").replace("{", ",").split(",")
            if name in values:
                family: Any = kind(f"hostsvc_{name}", text, labels=labels)
                for key, value in (values[name] if labels else {(): values[name]}).items():
                    _add(family, [str(each) for each in (key if isinstance(key, tuple) else (key,))], value)
                yield family


def _add(family: Any, labels: Sequence[str], value: float | Histogram) -> None:
    if isinstance(value, Histogram):
        sums = zip((*map(str, value.bounds), "+Inf"), accumulate(value.counts), strict=True)
        family.add_metric(labels, list(sums), value.seconds)
    else:
        family.add_metric(labels, value)


def request_durations(requests: Mapping[Answered, Sequence[float]]) -> Mapping[tuple[str, str], Histogram]:
    """Return durations without the status, which would multiply their series."""
    durations = defaultdict[tuple[str, str], Histogram](partial(Histogram, BUCKET_SECONDS))
    for (method, route, _), (*counts, seconds) in requests.items():
        sums = durations[method, route]
        sums.counts = [a + b for a, b in zip(sums.counts, counts, strict=True)]
        sums.seconds += seconds
    return durations
