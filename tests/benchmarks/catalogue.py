"""The rows of the benchmarks, by name. docs/performance.md says what each of them measures."""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from tests.benchmarks import (
    cycles,
    document_search,
    event_streams,
    flood,
    lists,
    long_list,
    million,
    posts,
    reads,
    reminders,
    spans,
    steady,
    turns,
    usage_summary,
    wake_context,
    waterfall,
)
from tests.benchmarks.bench import Bench
from tests.benchmarks.figures import Result

ROWS: Mapping[str, Callable[[Bench], Coroutine[Any, Any, Result]]] = {
    "get": reads.measure_agents,
    "reads": reads.measure_others,
    "list": lists.measure,
    "longlist": long_list.measure,
    "posts": posts.measure,
    "spans": spans.measure,
    "usage": usage_summary.measure,
    "cycles": cycles.measure,
    "steady": steady.measure,
    "flood": flood.measure,
    "million": million.measure,
    "reminders": reminders.measure,
    "turns": turns.measure,
    "waiting": turns.measure_waiting,
    "context": wake_context.measure,
    "search": document_search.measure,
    "streams": event_streams.measure,
    "waterfall": waterfall.measure,
}
