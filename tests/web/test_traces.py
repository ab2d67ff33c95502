"""Traces over HTTP."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from storage.ids import new_id
from storage.model import NewSpan, Span
from tests.web.conftest import Api, Service

TRACES = "/api/tracing/traces/"
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
    await service.storage.traces.insert_spans([NewSpan(span, {"prompt": "long"})])
    return span.id


async def test_a_trace_comes_with_its_spans_without_their_metadata(service: Service, api: Api) -> None:
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
            }
        ],
        "total_spans": 1,
    }


async def test_the_list_is_an_array_that_holds_one_page(service: Service, api: Api) -> None:
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
    assert (await api.get(TRACES)).body["pagination"]["limit"] == 50


async def test_the_list_knows_its_filters(service: Service, api: Api) -> None:
    template = await api.create_template()
    ann, bob = await api.create_agent(template=template["id"]), await api.create_agent()
    await make_trace(service, ann, 0)
    await make_trace(service, bob, 1, error="failed")
    await make_span(service, await make_trace(service, bob, 2), error="failed")

    async def names(query: str) -> list[str]:
        return [trace["name"] for trace in (await api.get(f"{TRACES}?{query}")).body["results"]]

    assert await names("") == ["t2", "t1", "t0"]
    assert await names(f"agent={ann['id']}") == ["t0"]
    assert await names(f"template={template['id']}") == ["t0"]
    assert await names("has_error=true") == ["t2", "t1"]
    assert await names("has_error=false") == ["t0"]
    assert await names("started_after=2026-01-01T01:00:00Z&started_before=2026-01-01T02:00:00") == ["t1"]


async def test_traces_outlive_their_agent(service: Service, api: Api) -> None:
    agent = await api.create_agent()
    trace_id = await make_trace(service, agent, 1)
    await api.delete(f"/api/cloud/agents/{agent['id']}/")
    assert (await api.get(f"{TRACES}{trace_id}/")).status == 200
    assert len((await api.get(f"{TRACES}?agent={agent['id']}")).body["results"]) == 1


async def test_nobody_else_sees_them(service: Service, api: Api, other: Api) -> None:
    agent = await api.create_agent()
    trace_id = await make_trace(service, agent, 1)
    assert (await other.get(f"{TRACES}{trace_id}/")).status == 403
    assert (await other.get(f"{TRACES}?agent={agent['id']}")).status == 403
    assert (await other.get(TRACES)).body["results"] == []


async def test_bad_filters_are_refused(api: Api) -> None:
    for query in ("limit=201", "limit=0", "agent=7", "has_error=x", "started_after=2026-01-01"):
        assert (await api.get(f"{TRACES}?{query}")).status == 400, query
        assert (await api.get(f"{TRACES}list/?{query}")).status == 400, query
