"""Traces over HTTP: created, listed, read with their spans, and ended."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from storage.history.trace_model import NewSpan, Span
from storage.ids import new_id
from storage.postgres.shared_reads import SHORT_BYTES
from tests.web.api.unknown import UNKNOWN_ID
from tests.web.conftest import SETTINGS, Api, Service
from web.api.tracing.traces import MIN_SPANS_BYTES
from web.json import to_json

TRACES = "/api/tracing/traces/"
SPANS = "/api/tracing/spans/"
START = datetime(2026, 1, 1, tzinfo=UTC)

INSERT = """
INSERT INTO trace (id, organization_id, agent_id, name, started_at, ended_at, error)
VALUES ($1, $2, $3, $4, $5, $6, $7)
"""


async def make_trace(service: Service, agent: Any, hour: int, *, error: str = "") -> UUID:
    trace_id, start = new_id(), START + timedelta(hours=hour)
    organization, agent_id = UUID(agent["organization"]), UUID(agent["id"])
    end = None if hour == 0 else start + timedelta(milliseconds=1500)
    await service.storage.pool.execute(
        INSERT, trace_id, organization, agent_id, f"t{hour}", start, end, error
    )
    return trace_id


async def make_span(service: Service, trace_id: UUID, *, error: str = "") -> UUID:
    span = Span(new_id(), trace_id, None, "chat", "llm", START, START + timedelta(milliseconds=250), error)
    await service.storage.traces.insert_spans([NewSpan(span, '{"prompt": "long"}')])
    return span.id


async def test_trace_includes_spans_without_metadata(service: Service, api: Api) -> None:
    agent = await api.create_agent()
    trace_id = await make_trace(service, agent, 0)
    span_id = await make_span(service, trace_id, error="no answer")
    assert (await api.get(f"{TRACES}{trace_id}/")).body == {
        "id": str(trace_id),
        "name": "t0",
        "agent": agent["id"],
        "started_at": "2026-01-01T00:00:00.000000Z",
        "ended_at": None,
        "error": "",
        "metadata": {},
        "spans": [
            {
                "id": str(span_id),
                "trace": str(trace_id),
                "name": "chat",
                "started_at": "2026-01-01T00:00:00.000000Z",
                "duration_ms": 250,
                "has_error": True,
                "parent": None,
                "span_type": "llm",
                "ended_at": "2026-01-01T00:00:00.250000Z",
                "input_tokens": None,
                "output_tokens": None,
                "cached_tokens": None,
                "cost_usd": None,
            }
        ],
        "total_spans": 1,
    }


@pytest.mark.parametrize("count", [0, 3])
@pytest.mark.parametrize("text", ["", "x" * (SHORT_BYTES + 1)])
async def test_whole_trace_is_like_a_page_of_it(api: Api, count: int, text: str) -> None:
    agent = await api.create_agent()
    trace = await api.create(TRACES, agent=agent["id"], name="x", metadata=text)
    path, spans = f"{TRACES}{trace['id']}/", [{"trace": trace["id"], "name": f"s{n}"} for n in range(count)]
    if spans:
        assert (await api.post(SPANS, spans)).status == 201
    whole, page = await api.get(path), await api.get(f"{path}?limit=1000")
    assert (whole.status, whole.body) == (200, page.body)
    assert (len(whole.body["spans"]), whole.body["total_spans"]) == (count, count)


async def pages(api: Api, path: str) -> list[Any]:
    """Return the traces that the links lead through."""
    bodies = []
    following: str | None = path
    while following:
        answer = await api.get(following)
        assert answer.status == 200, answer
        bodies.append(answer.body)
        link = answer.headers.get("Link")
        following = None if link is None else link.partition("<")[2].partition(">")[0]
    return bodies


async def test_spans_of_a_trace_come_in_linked_pages(service: Service, api: Api) -> None:
    agent = await api.create_agent()
    trace_id = await make_trace(service, agent, 0)
    spans = [Span(new_id(), trace_id, None, f"s{n}", "llm", START, None, "") for n in range(5)]
    await service.storage.traces.insert_spans([NewSpan(span, "{}") for span in spans])

    bodies = await pages(api, f"{TRACES}{trace_id}/?limit=2")

    assert [[span["name"] for span in body["spans"]] for body in bodies] == [
        ["s0", "s1"],
        ["s2", "s3"],
        ["s4"],
    ]
    assert {body["total_spans"] for body in bodies} == {5}
    [whole] = await pages(api, f"{TRACES}{trace_id}/")
    assert [span["name"] for span in whole["spans"]] == ["s0", "s1", "s2", "s3", "s4"]


async def test_page_of_spans_is_bounded_in_bytes(service: Service, api: Api) -> None:
    agent = await api.create_agent()
    trace = await api.create(TRACES, agent=agent["id"], name="x", metadata={"text": "x" * 900_000})
    names = [f"{n:04} " + "\x01" * 250 for n in range(1001)]
    spans = [Span(new_id(), UUID(trace["id"]), None, name, "llm", START, None, "e" * 9) for name in names]
    await service.storage.traces.insert_spans([NewSpan(span, "{}") for span in spans])

    bodies = await pages(api, f"{TRACES}{trace['id']}/")

    assert [span["name"] for body in bodies for span in body["spans"]] == names
    assert max(len(to_json(body)) for body in bodies) < 900_000 + MIN_SPANS_BYTES + 2_000


async def test_trace_expands_metadata_on_demand(api: Api) -> None:
    agent = await api.create_agent()
    trace = await api.create(TRACES, agent=agent["id"], name="night")
    path, sent = f"{TRACES}{trace['id']}/", [{"a": [1, None]}, None, "text", {}]
    spans = await api.post(SPANS, [{"trace": trace["id"], "name": "x", "metadata": each} for each in sent])
    plain = (await api.get(path)).body
    answer = await api.get(f"{path}?expand=metadata")
    expected = [{**span, "metadata": each} for span, each in zip(plain["spans"], sent, strict=True)]
    assert answer.body == {**plain, "spans": expected}
    assert plain["spans"] == spans.body
    assert [page["spans"][0] for page in await pages(api, f"{path}?expand=metadata&limit=1")] == expected
    refused = await api.get(f"{path}?expand=spans")
    assert (refused.status, list(refused.body)) == (400, ["expand"])


async def test_expanded_page_is_bounded_in_bytes(service: Service, api: Api) -> None:
    trace_id = await make_trace(service, await api.create_agent(), 0)
    spans = [
        Span(new_id(), trace_id, None, f"s{number}", "llm", START + timedelta(seconds=number), None, "")
        for number in range(8)
    ]
    longest = to_json({"screenshot": "x" * (SETTINGS.limits.span_metadata_bytes - 20)}).decode()
    for span, metadata in zip(spans, ["{}", longest, *["[1]"] * 4, longest, longest], strict=True):
        await service.storage.traces.insert_spans([NewSpan(span, metadata)])

    read = await pages(api, f"{TRACES}{trace_id}/?expand=metadata")

    names = [[span["name"] for span in page["spans"]] for page in read]
    assert names == [["s0"], ["s1"], ["s2", "s3", "s4", "s5"], ["s6"], ["s7"]]
    assert max(len(to_json(page)) for page in read) < SETTINGS.limits.span_metadata_bytes + 1000
    assert {page["total_spans"] for page in read} == {8}


async def test_after_must_be_a_span_of_the_trace(service: Service, api: Api) -> None:
    agent = await api.create_agent()
    trace_id, other_id = [await make_trace(service, agent, hour) for hour in range(2)]
    for unknown in (await make_span(service, other_id), new_id()):
        answer = await api.get(f"{TRACES}{trace_id}/?after={unknown}")
        assert (answer.status, answer.body) == (
            400,
            {"after": [f'Invalid pk "{unknown}" - object does not exist.']},
        )
    assert (await api.get(f"{TRACES}{trace_id}/?limit=1001")).status == 400


async def test_list_path_wraps_the_page_in_an_array(service: Service, api: Api) -> None:
    agent = await api.create_agent(template=(await api.create_template())["id"])
    for hour in range(3):
        await make_trace(service, agent, hour)
    plain = (await api.get(f"{TRACES}?limit=2&offset=1")).body
    assert (await api.get(f"{TRACES}list/?limit=2&offset=1")).body == [plain]
    assert plain["pagination"] == {"total_count": 3, "limit": 2, "offset": 1, "has_more": False}
    first, last = plain["results"]
    assert first == {
        "id": first["id"],
        "name": "t1",
        "agent_name": "Ann",
        "template_name": "Clerk",
        "started_at": "2026-01-01T01:00:00.000000Z",
        "duration_ms": 1500,
        "span_count": 0,
        "has_error": False,
        "agent": agent["id"],
        "ended_at": "2026-01-01T01:00:01.500000Z",
        "error": "",
        "metadata": {},
    }
    assert last["duration_ms"] is None
    await make_trace(service, await api.create_agent(), 4)
    assert (await api.get(f"{TRACES}?limit=1")).body["results"][0]["template_name"] == ""
    assert (await api.get(TRACES)).body["pagination"]["limit"] == 50


async def test_traces_are_filtered(service: Service, api: Api) -> None:
    template = await api.create_template()
    ann, bob = await api.create_agent(template=template["id"]), await api.create_agent()
    await make_trace(service, ann, 0)
    await make_trace(service, bob, 1, error="failed")
    await make_span(service, await make_trace(service, bob, 2), error="failed")

    async def names(query: str) -> list[str]:
        page = (await api.get(f"{TRACES}?{query}")).body
        assert (await api.get(f"{TRACES}list/?{query}")).body == [page]
        return [trace["name"] for trace in page["results"]]

    assert await names("") == ["t2", "t1", "t0"]
    assert await names(f"agent={ann['id']}") == ["t0"]
    assert await names(f"template={template['id']}") == ["t0"]
    assert await names("has_error=true") == ["t2", "t1"]
    assert await names("has_error=false") == ["t0"]
    assert await names("started_after=2026-01-01T01:00:00Z&started_before=2026-01-01T02:00:00") == ["t1"]
    assert await names("started_after=2026-01-01T01:00&limit=1&offset=1") == ["t1"]


async def test_traces_outlive_their_agent(service: Service, api: Api) -> None:
    agent = await api.create_agent()
    trace_id = await make_trace(service, agent, 1)
    await api.delete(f"/api/cloud/agents/{agent['id']}/")
    assert (await api.get(f"{TRACES}{trace_id}/")).status == 200
    assert len((await api.get(f"{TRACES}?agent={agent['id']}")).body["results"]) == 1


async def test_trace_is_created_with_the_id_of_the_client(api: Api) -> None:
    agent = await api.create_agent(timezone="America/New_York")
    body = {
        "id": UNKNOWN_ID,
        "agent": agent["id"],
        "name": " evening ",
        "started_at": "2026-01-01T00:00",
        "metadata": [1, None],
    }
    created = await api.create(TRACES, **body)
    assert created == {
        "id": UNKNOWN_ID,
        "name": "evening",
        "agent": agent["id"],
        "started_at": "2026-01-01T05:00:00.000000Z",
        "ended_at": None,
        "error": "",
        "metadata": [1, None],
    }
    assert (await api.get(f"{TRACES}{UNKNOWN_ID}/")).body == {**created, "spans": [], "total_spans": 0}
    again = await api.post(TRACES, body)
    assert (again.status, again.body) == (400, {"id": ["trace with this id already exists."]})


async def test_trace_of_a_deleted_agent_is_not_created(api: Api) -> None:
    gone = await api.create_agent()
    await api.delete(f"/api/cloud/agents/{gone['id']}/")
    answer = await api.post(TRACES, {"agent": gone["id"], "name": "x"})
    message = f'Invalid pk "{gone["id"]}" - object does not exist.'
    assert (answer.status, answer.body) == (400, {"agent": [message]})


async def test_first_end_time_stays_and_last_values_win(api: Api) -> None:
    agent = await api.create_agent()
    trace = await api.create(TRACES, agent=agent["id"], name="x", started_at="2026-01-01T00:00Z")
    path = f"{TRACES}{trace['id']}/end/"
    first = await api.post(path, {"ended_at": "2026-01-01T00:00:01Z", "error": "early"})
    assert (first.status, first.body) == (
        200,
        {**trace, "ended_at": "2026-01-01T00:00:01.000000Z", "error": "early"},
    )
    later = await api.post(path, {"agent": agent["id"], "name": "y", "error": "late", "metadata": {"a": 1}})
    assert later.body == {**first.body, "name": "y", "error": "late", "metadata": {"a": 1}}
    assert (await api.request("POST", path)).body == later.body


async def test_trace_end_checks_its_agent_and_its_start(api: Api) -> None:
    agent, bob = await api.create_agent(), await api.create_agent()
    trace = await api.create(TRACES, agent=agent["id"], name="x", started_at="2026-01-01T00:00Z")
    path = f"{TRACES}{trace['id']}/end/"
    answer = await api.post(path, {"agent": bob["id"]})
    assert (answer.status, answer.body) == (400, {"agent": ["This is not the agent of the trace."]})
    answer = await api.post(path, {"ended_at": "2025-12-31T23:59Z"})
    assert (answer.status, answer.body) == (400, {"ended_at": ["Ensure this is not before started_at."]})


async def test_traces_of_a_deleted_agent_stay_within_its_organization(
    service: Service, api: Api, other: Api
) -> None:
    agent = await api.create_agent()
    await make_trace(service, agent, 1)
    await api.delete(f"/api/cloud/agents/{agent['id']}/")
    assert (await other.get(f"{TRACES}?agent={agent['id']}")).status == 403
