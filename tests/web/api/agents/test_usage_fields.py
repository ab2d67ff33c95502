"""Bodies, queries and responses of usage."""

from datetime import timedelta
from decimal import Decimal

from storage.history.usage import ModelUsage, UsageRecord, UsageSums
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
from web.api.agents.usage import NewUsageBody, UsageQuery, serialize_usage, serialize_usage_record

CALL = {"model": "m", "input_tokens": 10, "output_tokens": 1}


def test_report_needs_model_and_tokens() -> None:
    assert refuse(NewUsageBody(), {}) == dict.fromkeys(CALL, REQUIRED)
    checked = accept(NewUsageBody(), CALL)
    assert (checked["cached_tokens"], checked["cost_usd"], checked["trace_id"]) == (0, None, None)


def test_cached_tokens_are_part_of_the_input_tokens() -> None:
    assert accept(NewUsageBody(), {**CALL, "cached_tokens": 10})["cached_tokens"] == 10
    message = "Ensure this value is less than or equal to 10."
    assert refuse(NewUsageBody(), {**CALL, "cached_tokens": 11}) == {"cached_tokens": [message]}


def test_query_accepts_a_date_as_midnight_in_utc() -> None:
    query = accept(UsageQuery(), {"start_date": "2026-01-01"})
    assert query == {"start_date": NOON - timedelta(hours=12), "end_date": None}


def test_record_shows_whether_the_call_was_priced() -> None:
    record = UsageRecord(
        id=ID,
        organization_id=ORGANIZATION_ID,
        agent_id=OTHER_ID,
        trace_id=None,
        model="m",
        input_tokens=10,
        output_tokens=1,
        cached_tokens=0,
        cost_usd=Decimal(0),
        priced=False,
        occurred_at=NOON,
    )
    assert serve(serialize_usage_record(record)) == {
        "id": ID_TEXT,
        "agent": OTHER_ID_TEXT,
        "trace": None,
        "model": "m",
        "input_tokens": 10,
        "output_tokens": 1,
        "cached_tokens": 0,
        "cost_usd": 0,
        "priced": False,
        "occurred_at": NOON_TEXT,
    }


def test_usage_has_all_calls_and_those_of_each_model() -> None:
    models = (
        ModelUsage("a", 1, 2, 0, Decimal("0.1"), 1, priced=False),
        ModelUsage("b", 3, 4, 1, Decimal("0.2"), 2, priced=True),
    )
    sums = UsageSums(ModelUsage("", 4, 6, 1, Decimal("0.3"), 3, priced=False), models, model_count=2)
    usage = serve(serialize_usage(ID, "Ann", NOON, NOON, sums))
    breakdown = usage.pop("model_breakdown")
    assert usage == {
        "agent_id": ID_TEXT,
        "agent_name": "Ann",
        "start_date": NOON_TEXT,
        "end_date": NOON_TEXT,
        "input_tokens": 4,
        "output_tokens": 6,
        "cached_tokens": 1,
        "total_cost_usd": 0.3,
        "llm_calls": 3,
        "priced": False,
        "model_count": 2,
    }
    assert breakdown["b"] == {
        "input_tokens": 3,
        "output_tokens": 4,
        "cached_tokens": 1,
        "total_cost_usd": 0.2,
        "llm_calls": 2,
        "priced": True,
    }
