"""Bodies and responses of spans."""

from dataclasses import replace
from datetime import timedelta

from storage.history.trace_model import Span
from storage.history.traces import SpanWithMetadata
from tests.web.api.checks import (
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
from web.api.tracing.spans import NewSpanBody, SpanEndBody, serialize_full_span, serialize_span

SPAN = Span(ID, OTHER_ID, None, "chat", "llm", NOON, None, "no answer")


def test_new_span_needs_trace_and_name() -> None:
    assert refuse(NewSpanBody(), {}) == {"trace": REQUIRED, "name": REQUIRED}
    checked = accept(NewSpanBody(), {"trace": ID_TEXT, "name": "chat"})
    assert (checked["span_type"], checked["metadata"], "id" in checked) == ("other", {}, False)


def test_end_distinguishes_null_metadata_from_none_given() -> None:
    assert accept(SpanEndBody(), {"metadata": None}) == {"metadata": None}
    assert accept(SpanEndBody(), {}) == {}


def test_duration_is_in_whole_milliseconds() -> None:
    ended = replace(SPAN, ended_at=NOON + timedelta(microseconds=1999))
    assert serialize_span(ended)["duration_ms"] == 1
    assert serialize_span(SPAN)["duration_ms"] is None


def test_summary_says_only_that_there_was_an_error() -> None:
    assert serve(serialize_span(SPAN)) == {
        "id": ID_TEXT,
        "trace": OTHER_ID_TEXT,
        "name": "chat",
        "started_at": NOON_TEXT,
        "duration_ms": None,
        "has_error": True,
        "parent": None,
        "span_type": "llm",
        "ended_at": None,
        "input_tokens": None,
        "output_tokens": None,
        "cached_tokens": None,
        "cost_usd": None,
    }


def test_full_span_adds_error_and_metadata() -> None:
    full = serve(serialize_full_span(SpanWithMetadata(SPAN, [1], ORGANIZATION_ID, OTHER_ID)))
    assert full == {**serve(serialize_span(SPAN)), "error": "no answer", "metadata": [1]}
