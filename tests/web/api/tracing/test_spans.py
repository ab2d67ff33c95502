"""Spans over HTTP: created one by one or as a list, ended, and read with their metadata."""

import json
from io import BytesIO
from typing import Any
from uuid import UUID

import pytest

from storage.postgres.pool import Pool
from tests.web.api.unknown import UNKNOWN_ID, UNKNOWN_ID_MESSAGES
from tests.web.conftest import Answer, Api, StartService

TRACES = "/api/tracing/traces/"
SPANS = "/api/tracing/spans/"
MEBIBYTE = 1_048_576


async def new_trace(api: Api, **agent: Any) -> str:
    created = await api.create_agent(**agent)
    trace = await api.create(TRACES, agent=created["id"], name="x", started_at="2026-01-01T00:00Z")
    return str(trace["id"])


async def post_large(api: Api, path: str, body: Any) -> Answer:
    """Post the body as a file: the client warns of large bodies given as bytes."""
    content = BytesIO(json.dumps(body).encode())
    return await api.request("POST", path, data=content, headers={"Content-Type": "application/json"})


async def test_span_is_a_summary_in_its_trace_and_full_alone(api: Api) -> None:
    trace = await new_trace(api, timezone="America/New_York")
    created = await api.create(
        SPANS,
        id=UNKNOWN_ID,
        trace=trace,
        name="chat gpt",
        span_type="llm",
        started_at="2026-01-01T00:00",
        ended_at="2026-01-01T00:00:00.25",
        error="no answer",
        metadata={"gen_ai.usage.input_tokens": 7},
    )
    assert created == {
        "id": UNKNOWN_ID,
        "trace": trace,
        "name": "chat gpt",
        "started_at": "2026-01-01T05:00:00.000000Z",
        "duration_ms": 250,
        "has_error": True,
        "parent": None,
        "span_type": "llm",
        "ended_at": "2026-01-01T05:00:00.250000Z",
        "input_tokens": 7,
        "output_tokens": None,
        "cached_tokens": None,
        "cost_usd": None,
    }
    full = {**created, "error": "no answer", "metadata": {"gen_ai.usage.input_tokens": 7}}
    assert (await api.get(f"{SPANS}{UNKNOWN_ID}/")).body == full
    assert (await api.get(f"{TRACES}{trace}/")).body["spans"] == [created]


async def test_span_usage_is_read_from_its_attributes(api: Api) -> None:
    trace = await new_trace(api)
    attributes = {
        "gen_ai.usage.input_tokens": 70,
        "gen_ai.usage.output_tokens": 9,
        "gen_ai.usage.cache_read.input_tokens": 60,
        "hostsvc.usage.cost_usd": 0.25,
    }
    created = await api.post(SPANS, [{"trace": trace, "name": "chat"}] * 2)
    first, second = (span["id"] for span in created.body)
    await api.post(f"{SPANS}{first}/end/", {"metadata": attributes})
    await api.post(f"{SPANS}{first}/end/", {"error": "late"})
    await api.post(f"{SPANS}{second}/end/", {"metadata": {"gen_ai.usage.input_tokens": "many"}})

    used, unused = (await api.get(f"{TRACES}{trace}/")).body["spans"]

    names = ("input_tokens", "output_tokens", "cached_tokens", "cost_usd")
    assert [used[name] for name in names] == [70, 9, 60, 0.25]
    assert [unused[name] for name in names] == [None] * 4


@pytest.mark.parametrize("metadata", [[], [1], [[1], [2, 3]], {"a": [None]}, "x", 0, None])
async def test_span_metadata_may_be_any_json(api: Api, metadata: Any) -> None:
    trace = await new_trace(api)
    sent: list[Any] = [metadata, {}, metadata]
    created = await api.post(SPANS, [{"trace": trace, "name": "step", "metadata": each} for each in sent])
    stored = [(await api.get(f"{SPANS}{span['id']}/")).body["metadata"] for span in created.body]
    assert stored == sent


async def test_span_has_defaults(api: Api) -> None:
    trace = await new_trace(api)
    created = await api.create(SPANS, trace=trace, name="step")
    assert (created["span_type"], created["ended_at"], created["duration_ms"]) == ("other", None, None)
    shown = (await api.get(f"{SPANS}{created['id']}/")).body
    assert (shown["error"], shown["metadata"]) == ("", {})


async def test_at_most_five_hundred_spans_are_stored_at_once(api: Api) -> None:
    trace = await new_trace(api)
    metadata = {f"k{number}": number for number in range(110)}
    spans = [{"trace": trace, "name": f"step {number}", "metadata": metadata} for number in range(500)]
    answer = await api.post(SPANS, spans)
    assert (answer.status, [span["name"] for span in answer.body]) == (201, [span["name"] for span in spans])
    assert (await api.get(f"{TRACES}{trace}/")).body["total_spans"] == 500
    answer = await api.post(SPANS, [*spans, spans[0]])
    message = {"non_field_errors": ["Ensure this field has no more than 500 elements."]}
    assert (answer.status, answer.body) == (400, message)
    assert (await api.post(SPANS, [])).body == []


async def test_errors_in_a_list_stand_under_their_index(api: Api) -> None:
    trace = await new_trace(api)
    good = {"trace": trace, "name": "good"}
    taken = await api.create(SPANS, **good)
    backwards = {"started_at": "2026-01-01T00:00:01Z", "ended_at": "2026-01-01T00:00:00Z"}

    answer = await api.post(SPANS, [good, {"trace": "7"}, 8])
    assert (answer.status, answer.body) == (
        400,
        {
            "1": {"trace": ["Must be a valid UUID."], "name": ["This field is required."]},
            "2": {"non_field_errors": ["Invalid data. Expected a dictionary, but got int."]},
        },
    )
    answer = await api.post(
        SPANS,
        [
            {**good, "trace": UNKNOWN_ID},
            {**good, **backwards},
            {**good, "id": UNKNOWN_ID},
            {**good, "id": UNKNOWN_ID},
        ],
    )
    assert answer.body == {
        "0": {"trace": UNKNOWN_ID_MESSAGES},
        "1": {"ended_at": ["Ensure this is not before started_at."]},
        "3": {"id": ["span with this id already exists."]},
    }
    answer = await api.post(SPANS, [good, {**good, "id": taken["id"]}])
    assert (answer.status, answer.body) == (400, {"1": {"id": ["span with this id already exists."]}})
    answer = await api.post(SPANS, {**good, "id": taken["id"]})
    assert (answer.status, answer.body) == (400, {"id": ["span with this id already exists."]})
    assert (await api.get(f"{TRACES}{trace}/")).body["total_spans"] == 1


async def test_first_end_time_stays_and_last_values_win(api: Api) -> None:
    trace = await new_trace(api)
    span = await api.create(SPANS, trace=trace, name="step", started_at="2026-01-01T00:00Z", error="early")
    path = f"{SPANS}{span['id']}/end/"
    first = await api.post(path, {"ended_at": "2026-01-01T00:00:01Z", "metadata": None})
    assert (first.status, first.body) == (
        200,
        {
            **span,
            "ended_at": "2026-01-01T00:00:01.000000Z",
            "duration_ms": 1000,
            "error": "early",
            "metadata": None,
        },
    )
    later = await api.request("POST", path, data={"error": "", "metadata": '{"a": 1}'})
    assert later.body == {**first.body, "has_error": False, "error": "", "metadata": {"a": 1}}
    answer = await api.post(path, {"ended_at": "2025-01-01T00:00Z"})
    assert (answer.status, list(answer.body)) == (400, ["ended_at"])


async def test_span_bodies_may_be_larger_but_not_their_metadata(api: Api) -> None:
    trace = await new_trace(api)
    half = {"screenshot": "x" * (MEBIBYTE // 2)}
    spans = [{"trace": trace, "name": "browser", "metadata": half} for _ in range(4)]
    answer = await post_large(api, SPANS, spans)
    assert answer.status == 201
    assert (await api.get(f"{SPANS}{answer.body[3]['id']}/")).body["metadata"] == half
    too_much = {"metadata": "x" * MEBIBYTE}
    for path, body in (
        (SPANS, {**spans[0], **too_much}),
        (SPANS, [{**spans[0], "metadata": half}] * 17),
        (f"{SPANS}{answer.body[0]['id']}/end/", too_much),
        (TRACES, {"name": "x" * MEBIBYTE}),
    ):
        assert (await post_large(api, path, body)).status == 413, path


async def test_metadata_size_limit_is_configurable(start_service: StartService) -> None:
    api = await (await start_service(span_metadata_bytes=1024)).new_organization()
    trace = await new_trace(api)
    assert (await api.post(SPANS, {"trace": trace, "name": "x", "metadata": "x" * 1022})).status == 201
    answer = await api.post(SPANS, {"trace": trace, "name": "x", "metadata": "x" * 1023})
    detail = "The metadata of a span may not be larger than 1024 bytes."
    assert (answer.status, answer.body) == (413, {"detail": detail})


async def test_spans_beyond_the_limit_of_a_trace_are_refused(start_service: StartService, pool: Pool) -> None:
    api = await (await start_service()).new_organization()
    full, other = await new_trace(api), await new_trace(api)
    await pool.execute("INSERT INTO trace_size (trace_id, span_count) VALUES ($1, 99999)", UUID(full))
    step = {"trace": full, "name": "step"}
    refused = ["A trace may have at most 100000 spans (limits.spans_per_trace), and this one has 99999."]

    answer = await api.post(SPANS, [{"trace": other, "name": "step"}, step, step])

    assert (answer.status, answer.body) == (400, {"1": {"trace": refused}, "2": {"trace": refused}})
    assert (await api.get(f"{TRACES}{other}/")).body["spans"] == []
    assert (await api.post(SPANS, step)).status == 201
    assert (await api.post(SPANS, step)).body == {"trace": [refused[0].replace("99999", "100000")]}


async def test_parent_is_another_span_of_the_trace_or_unknown(api: Api, other: Api) -> None:
    trace, second = await new_trace(api), await new_trace(api)
    parent = await api.create(SPANS, trace=trace, name="parent")
    elsewhere = await api.create(SPANS, trace=second, name="elsewhere")
    theirs = await other.create(SPANS, trace=await new_trace(other), name="theirs")
    step = {"trace": trace, "name": "step"}

    for good in (parent["id"], UNKNOWN_ID, None):
        assert (await api.post(SPANS, {**step, "parent": good})).status == 201
    answer = await api.post(SPANS, {**step, "parent": elsewhere["id"]})
    assert (answer.status, answer.body) == (400, {"parent": ["This is not a span of the trace."]})
    answer = await api.post(SPANS, {**step, "id": UNKNOWN_ID, "parent": UNKNOWN_ID})
    assert (answer.status, answer.body) == (400, {"parent": ["A span may not be its own parent."]})
    assert (await api.post(SPANS, {**step, "parent": theirs["id"]})).status == 403
    assert (await api.get(f"{TRACES}{trace}/")).body["total_spans"] == 4


async def test_parents_may_be_in_the_same_list_in_any_order(api: Api) -> None:
    trace, second = await new_trace(api), await new_trace(api)
    child = {"trace": trace, "name": "child", "parent": UNKNOWN_ID}
    parent = {"trace": trace, "name": "parent", "id": UNKNOWN_ID}
    answer = await api.post(SPANS, [child, {**parent, "trace": second}])
    assert (answer.status, answer.body) == (400, {"0": {"parent": ["This is not a span of the trace."]}})
    answer = await api.post(SPANS, [child, parent, child])
    assert (answer.status, [span["parent"] for span in answer.body]) == (201, [UNKNOWN_ID, None, UNKNOWN_ID])
