"""Bodies, queries and responses of traces."""

from dataclasses import asdict, replace
from datetime import timedelta

from storage.history.trace_model import Span, Trace
from storage.history.traces import TraceSummary
from tests.web.api.checks import (
    BLANK,
    ID,
    ID_TEXT,
    NOON,
    NOON_TEXT,
    ORGANIZATION_ID,
    OTHER_ID,
    OTHER_ID_TEXT,
    REQUIRED,
    accept,
    refuse,
    serve,
)
from web.api.tracing.spans import serialize_span
from web.api.tracing.traces import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    NewTraceBody,
    TraceEndBody,
    TraceQuery,
    serialize_full_trace,
    serialize_trace,
    serialize_trace_summary,
)

TRACE = Trace(ID, ORGANIZATION_ID, OTHER_ID, "evening", NOON, None, "", {"a": 1})
RESPONSE = {
    "id": ID_TEXT,
    "name": "evening",
    "agent": OTHER_ID_TEXT,
    "started_at": NOON_TEXT,
    "ended_at": None,
    "error": "",
    "metadata": {"a": 1},
}


def test_new_trace_needs_agent_and_name() -> None:
    assert refuse(NewTraceBody(), {}) == {"agent": REQUIRED, "name": REQUIRED}
    assert accept(NewTraceBody(), {"agent": ID_TEXT, "name": "x"}) == {
        "agent_id": ID,
        "name": "x",
        "started_at": None,
        "metadata": {},
    }


def test_end_fills_nothing_in_and_keeps_a_name() -> None:
    assert accept(TraceEndBody(), {}) == {}
    assert refuse(TraceEndBody(), {"name": " "}) == {"name": BLANK}


def test_query_limits_the_page() -> None:
    query = accept(TraceQuery(), {})
    assert (query["limit"], query["offset"], query["has_error"]) == (DEFAULT_LIMIT, 0, None)
    too_large = [f"Ensure this value is less than or equal to {MAX_LIMIT}."]
    assert refuse(TraceQuery(), {"limit": str(MAX_LIMIT + 1)}) == {"limit": too_large}


def test_trace_hides_the_organization() -> None:
    assert serve(serialize_trace(TRACE)) == RESPONSE


def test_full_trace_has_a_page_of_its_spans() -> None:
    span = serialize_span(Span(ID, ID, None, "chat", "llm", NOON, None, ""))
    full = serve(serialize_full_trace(TRACE, [span, span], 5))
    assert (full["total_spans"], [each["name"] for each in full["spans"]]) == (5, ["chat", "chat"])
    assert {name: full[name] for name in RESPONSE} == RESPONSE


def test_summary_adds_names_counts_and_duration() -> None:
    trace = replace(TRACE, ended_at=NOON + timedelta(seconds=1.5))
    summary = TraceSummary(**asdict(trace), agent_name="Ann", template_name="", span_count=3, has_error=True)
    assert serve(serialize_trace_summary(summary)) == {
        **RESPONSE,
        "ended_at": "2026-01-01T12:00:01.500000Z",
        "agent_name": "Ann",
        "template_name": "",
        "duration_ms": 1500,
        "span_count": 3,
        "has_error": True,
    }
