"""Waterfalls: spans as columns, page by page."""

from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any

import pytest

from storage.history.trace_model import Trace
from storage.history.traces import MAX_BYTES, MAX_SPANS, Traces
from storage.ids import new_id
from storage.postgres.json_values import decoded, to_json
from storage.postgres.pool import Pool
from tests.storage.factories import NOW, SECOND, new_span
from tests.storage.postgres.explaining_pool import ExplainingPool

pytestmark = pytest.mark.own_database

TRACE = Trace(new_id(), new_id(), new_id(), "night", NOW, None, "", {})
COLUMNS = {
    "parents",
    "names",
    "span_types",
    "starts_us",
    "durations_us",
    "has_errors",
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "costs_usd",
}


async def pages(traces: Traces, trace: Trace, limit: int) -> list[dict[str, Any]]:
    found, after = [], None
    while True:
        columns = await traces.read_columns(trace, after, limit)
        found.append({name: decoded(value) for name, value in asdict(columns).items()})
        if not columns.is_cut or columns.last_id is None:
            return found
        after = await traces.get_span_cursor(trace.id, columns.last_id)


async def test_columns_tell_what_spans_are(pool: Pool) -> None:
    traces = Traces(pool)
    usage: dict[str, Any] = {"input_tokens": 7, "output_tokens": 0, "cached_tokens": 3, "cost_usd": 0.5}
    root = new_span(TRACE.id, name="root", span_type="agent", started_at=NOW, ended_at=None)
    call = new_span(
        TRACE.id,
        parent_id=root.span.id,
        name='chat "x"\x01',
        started_at=NOW + timedelta(microseconds=1500),
        ended_at=NOW + timedelta(microseconds=1501),
        error="dark",
        **usage,
    )
    await traces.insert_spans([root, call])

    [page] = await pages(traces, TRACE, 10)

    assert (page["is_cut"], page["last_id"]) == (False, call.span.id)
    assert page["ids"] == [str(root.span.id), str(call.span.id)]
    assert {name: page[name] for name in COLUMNS} == {
        "parents": [None, str(root.span.id)],
        "names": ["root", 'chat "x"\x01'],
        "span_types": ["agent", "llm"],
        "starts_us": [0, 1500],
        "durations_us": [None, 1],
        "has_errors": [False, True],
        "input_tokens": [None, 7],
        "output_tokens": [None, 0],
        "cached_tokens": [None, 3],
        "costs_usd": [None, 0.5],
    }


async def test_pages_of_columns_lead_through_all_spans(pool: Pool) -> None:
    traces, trace = Traces(pool), replace(TRACE, id=new_id())
    spans = [new_span(trace.id, name=f"s{n}", started_at=NOW - n // 2 * SECOND) for n in range(7)]
    await traces.insert_spans(spans)
    in_order = sorted(spans, key=lambda new: (new.span.started_at, new.span.id))

    found = await pages(traces, trace, 3)

    assert [len(page["ids"]) for page in found] == [3, 3, 1]
    assert [name for page in found for name in page["names"]] == [new.span.name for new in in_order]


async def test_page_of_columns_is_bounded_in_bytes(pool: Pool) -> None:
    traces, trace = Traces(pool), replace(TRACE, id=new_id())
    await traces.insert_spans([new_span(trace.id, name=f"{n} " + "\x01" * 250) for n in range(1500)])

    found = await pages(traces, trace, MAX_SPANS)

    assert len(found) > 2
    assert sum(len(page["ids"]) for page in found) == 1500
    assert max(len(to_json({**page, "last_id": ""})) for page in found) < MAX_BYTES


async def test_page_of_columns_reads_no_other_spans(pool: Pool) -> None:
    traces, explaining, trace = Traces(pool), ExplainingPool(pool), replace(TRACE, id=new_id())
    spans = [new_span(trace.id, started_at=NOW + n * SECOND) for n in range(1000)]
    await traces.insert_spans([*spans, *(new_span(new_id()) for _ in range(500))])
    after = (spans[799].span.started_at, spans[799].span.id)

    columns = await Traces(explaining).read_columns(trace, after, 100)

    assert decoded(columns.ids) == [str(new.span.id) for new in spans[800:900]]
    assert max(explaining.rows_touched.values()) <= 101
