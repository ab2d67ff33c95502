"""The clever ways of reading requests against the plain ones; exit 1 if one is not worth its complexity.

Both ways run in turn in the same process; the ratio is the median over pairs, so a noisy machine hardly
matters. Run it as `python -m tests.benchmarks.request_parsing`; it needs no database.
"""

import asyncio
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from statistics import median
from urllib.parse import parse_qsl

import orjson

from web.api.channels.notifications import NewNotificationBody
from web.api.tracing.spans import NewSpanBody
from web.errors import TooLarge
from web.request.forms import parse_urlencoded
from web.request.json_text import MAX_VALUES, check_value_count, parse_json
from web.request.parsing import check_items, parse_items
from web.storable import check_json, check_layers

ROUNDS = 15
TICK_SECONDS = 0.001

AGENT = "01890a5d-ac96-774b-bcce-b302099a8057"
NOTIFICATION = {
    "agent": AGENT,
    "title": "The parcel has not come.",
    "source": "sms",
    "priority": "high",
    "body": "Where is it? I was at home all day.",
}
SPAN = {
    "trace": AGENT,
    "name": "chat",
    "type": "llm",
    "started_at": "2026-11-20T10:28:33.967525Z",
    "metadata": {
        "input": [{"role": "user", "content": "Where is the parcel?"}],
        "usage": {"in": 12, "out": 3},
    },
}
SPANS = orjson.dumps([SPAN] * 2000)
ESCAPES = b"name=" + b"%41" * 340_000
EMPTY_LISTS = b'{"name": "Ann", "metadata": [' + b"[]," * 340_000 + b"[]]}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """The cost of an operation both ways, in microseconds, and the factor the plain way must cost more."""

    name: str
    bar: float
    clever: list[float]
    plain: list[float]

    @property
    def ratio(self) -> float:
        return median(plain / clever for clever, plain in zip(self.clever, self.plain, strict=True))

    def __str__(self) -> str:
        figures = f"{median(self.clever):>10,.1f} µs, plain {median(self.plain):>10,.1f} µs"
        verdict = "met" if self.ratio >= self.bar else "not met"
        return f"{self.name:<42}{figures}, ratio {self.ratio:>5.1f} (bar {self.bar}): {verdict}"


def compare(
    name: str, bar: float, times: int, clever: Callable[[], object], plain: Callable[[], object]
) -> Comparison:
    """Measure the processor time of both."""
    pairs = [(_microseconds(clever, times), _microseconds(plain, times)) for _ in range(ROUNDS)]
    return Comparison(name, bar, [pair[0] for pair in pairs], [pair[1] for pair in pairs])


def _microseconds(operation: Callable[[], object], times: int) -> float:
    began = time.process_time()
    for _ in range(times):
        operation()
    return (time.process_time() - began) / times * 1e6


async def compare_stalls() -> Comparison:
    """Measure for how long reading a megabyte of spans keeps the event loop from anything else."""
    pairs = [(await _stall(in_thread=True), await _stall(in_thread=False)) for _ in range(ROUNDS)]
    return Comparison(
        "longest stall of the loop by 2,000 spans",
        2.0,
        [pair[0] for pair in pairs],
        [pair[1] for pair in pairs],
    )


async def _stall(*, in_thread: bool) -> float:
    stalls: list[float] = []

    async def tick() -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(TICK_SECONDS)
            stalls.append(time.perf_counter() - began - TICK_SECONDS)

    ticking = asyncio.create_task(tick())
    await asyncio.sleep(TICK_SECONDS)
    if in_thread:
        await asyncio.to_thread(_read_spans)
    else:
        _read_spans()
    await asyncio.sleep(TICK_SECONDS * 2)
    ticking.cancel()
    return max(stalls) * 1e6


def _read_spans() -> None:
    items = parse_items(SPANS, "application/json", SPAN_BODY, 2000)
    check_items(items, SPAN_BODY, 2000, lambda item: None)


def _refused(check: Callable[[], object]) -> None:
    with suppress(TooLarge):
        check()


NOTIFICATION_BODY, SPAN_BODY = NewNotificationBody(), NewSpanBody()


def main() -> int:
    comparisons = [
        compare(
            "Body.checked: a notification",
            1.5,
            1000,
            lambda: NOTIFICATION_BODY.checked(NOTIFICATION),
            lambda: NOTIFICATION_BODY.load(NOTIFICATION),
        ),
        compare(
            "Body.checked: a span", 1.2, 1000, lambda: SPAN_BODY.checked(SPAN), lambda: SPAN_BODY.load(SPAN)
        ),
        compare(
            "storable.check_json: metadata of a span",
            2.0,
            1000,
            lambda: check_json(SPAN["metadata"]),
            lambda: check_layers(SPAN["metadata"]),
        ),
        compare(
            "forms.unquote: a megabyte of escapes",
            3.0,
            1,
            lambda: parse_urlencoded(ESCAPES),
            lambda: parse_qsl(ESCAPES.decode(), keep_blank_values=True, errors="strict"),
        ),
        compare(
            "check_value_count: 340,000 empty lists",
            5.0,
            1,
            lambda: _refused(lambda: check_value_count(EMPTY_LISTS, MAX_VALUES)),
            lambda: parse_json(EMPTY_LISTS, max_values=10**6),
        ),
        asyncio.run(compare_stalls()),
    ]
    for comparison in comparisons:
        print(comparison)  # noqa: T201
    return 0 if all(comparison.ratio >= comparison.bar for comparison in comparisons) else 1


if __name__ == "__main__":
    sys.exit(main())
