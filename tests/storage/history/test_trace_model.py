"""What spans used, as far as their attributes tell it."""

from typing import Any

import pytest

from storage.history.trace_model import NO_USAGE, usage_of
from storage.history.traces import Ending, Traces
from storage.ids import new_id
from storage.postgres.pool import Pool
from tests.storage.factories import NOW, new_span

ATTRIBUTES = {
    "gen_ai.usage.input_tokens": 70,
    "gen_ai.usage.output_tokens": 9,
    "gen_ai.usage.cache_read.input_tokens": 0,
    "hostsvc.usage.cost_usd": 0.25,
}
USAGE: dict[str, Any] = {"input_tokens": 70, "output_tokens": 9, "cached_tokens": 0, "cost_usd": 0.25}


@pytest.mark.parametrize(
    "metadata", [None, [], "text", {}, {"gen_ai.usage.input_tokens": 0, "gen_ai.usage.output_tokens": 0}]
)
def test_metadata_without_usage_tells_none(metadata: Any) -> None:
    assert usage_of(metadata) == NO_USAGE


@pytest.mark.parametrize("value", ["7", -1, 1.5, True, None, [7], 2**64])
def test_token_count_that_is_none_is_ignored(value: Any) -> None:
    assert usage_of(ATTRIBUTES | {"gen_ai.usage.input_tokens": value})["input_tokens"] is None


@pytest.mark.parametrize("value", ["7", -0.1, True, float("inf"), float("nan")])
def test_cost_that_is_no_amount_is_ignored(value: Any) -> None:
    assert usage_of(ATTRIBUTES | {"hostsvc.usage.cost_usd": value})["cost_usd"] is None


async def test_usage_is_stored_with_the_span_and_with_its_end(pool: Pool) -> None:
    traces, trace_id = Traces(pool), new_id()
    stored, ended, open_ = (new_span(trace_id, started_at=NOW, **usage) for usage in (USAGE, {}, {}))
    await traces.insert_spans([stored, ended, open_])
    await traces.end_spans([new_span(trace_id, id=ended.span.id, **USAGE)])
    await traces.end_span(open_.span.id, Ending(NOW, has_metadata=True, metadata=ATTRIBUTES))

    listed = await traces.list_spans(trace_id)

    assert [{name: getattr(span, name) for name in USAGE} for span in listed] == [USAGE] * 3
