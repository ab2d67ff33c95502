"""Waterfalls over HTTP."""

from tests.web.api.tracing.test_spans import SPANS, TRACES, new_trace
from tests.web.api.tracing.test_traces import pages
from tests.web.api.unknown import UNKNOWN_ID
from tests.web.conftest import Api


async def test_waterfall_leads_through_the_spans_in_columns(api: Api) -> None:
    trace = await new_trace(api)
    start = "2026-01-01T00:00:01Z"
    spans = [{"trace": trace, "name": f"s{n}", "started_at": start, "ended_at": start} for n in range(3)]
    created = (await api.post(SPANS, spans)).body

    first, second = await pages(api, f"{TRACES}{trace}/waterfall/?limit=2")

    assert {name: first[name] for name in ("started_at", "ended_at", "total_spans")} == {
        "started_at": "2026-01-01T00:00:00.000000Z",
        "ended_at": None,
        "total_spans": 3,
    }
    assert first["spans"] == {
        "ids": [span["id"] for span in created[:2]],
        "parents": [None, None],
        "names": ["s0", "s1"],
        "span_types": ["other", "other"],
        "starts_us": [1_000_000, 1_000_000],
        "durations_us": [0, 0],
        "has_errors": [False, False],
        "input_tokens": [None, None],
        "output_tokens": [None, None],
        "cached_tokens": [None, None],
        "costs_usd": [None, None],
    }
    assert second["spans"]["names"] == ["s2"]


async def test_waterfall_after_an_unknown_span_is_refused(api: Api) -> None:
    trace = await new_trace(api)
    refused = await api.get(f"{TRACES}{trace}/waterfall/?after={UNKNOWN_ID}")
    assert (refused.status, list(refused.body)) == (400, ["after"])
