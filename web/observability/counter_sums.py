"""Counters over all nodes. They never fall, whichever node answers and whichever has ended.

Each node stores its counters in its row, where they stay when it ends. An answer tells the sums of what is
stored, so no later answer can know less.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import orjson
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from storage.errors import StorageError
from storage.node_counters import NodeCounters
from web.ports import Nodes

MILLION = 1_000_000


class CounterSums:
    """Stores the counters of this node, and reads the sums over all."""

    def __init__(self, store: NodeCounters, nodes: Nodes) -> None:
        self._store = store
        self._nodes = nodes
        self._last: Mapping[str, int] = {}

    async def publish(self, metrics: Iterable[Metric]) -> None:
        """Store what this node has counted so far."""
        await self._store.publish(self._nodes.node_id, self._nodes.life, counters_of(metrics))

    async def read(self, metrics: Iterable[Metric], *, can_write: bool) -> Mapping[str, int]:
        """Publish, and return the sums by series; during an outage, those that were read last."""
        if can_write:
            with suppress(StorageError):
                await self.publish(metrics)
                self._last = await self._store.sum()
        return self._last or counters_of(metrics)


@dataclass(frozen=True, slots=True)
class Collected(Collector):
    """Metrics to write."""

    metrics: Iterable[Metric]

    def collect(self) -> Iterable[Metric]:
        return self.metrics


def counters_of(metrics: Iterable[Metric]) -> dict[str, int]:
    """Return the service's counters and histograms in whole millionths, by name and labels of the series."""
    return {
        orjson.dumps([sample.name, sample.labels]).decode(): round(sample.value * MILLION)
        for metric in metrics
        if _is_summed(metric)
        for sample in metric.samples
    }


def with_sums(metrics: Sequence[Metric], sums: Mapping[str, int]) -> Iterator[Metric]:
    """Yield the metrics with the sums in place of what this node has counted, its own series first."""
    samples: dict[str, list[Sample]] = defaultdict(list)
    own = [series for series in counters_of(metrics) if series in sums]
    for series in (*own, *sorted(sums.keys() - own, key=_place)):
        name, labels = orjson.loads(series)
        samples[name.rpartition("_")[0]].append(Sample(name, labels, sums[series] / MILLION))
    for metric in metrics:
        if _is_summed(metric):
            summed = Metric(metric.name, metric.documentation, metric.type)
            summed.samples = samples[metric.name]
            yield summed
        else:
            yield metric


def _place(series: str) -> tuple[list[str], float, str]:
    """Return by what series are sorted: by labels, then the buckets of a histogram, its count and sum."""
    name, labels = orjson.loads(series)
    bound = float(labels.pop("le", "inf"))
    return [*labels.values()], bound, name


def _is_summed(metric: Metric) -> bool:
    """Return whether a metric only grows, and is not the process's own."""
    return metric.name.startswith("hostsvc_") and metric.type in {"counter", "histogram"}
