"""The content of spans: stored apart from the metadata, and read as a part of it."""

from datetime import timedelta
from hashlib import sha256
from typing import Any

import pytest

from storage.history.spans import SharedContents
from storage.history.trace_model import SpanContent, Trace
from storage.history.traces import Ending, Traces
from storage.ids import new_id
from storage.model import Agent
from storage.postgres.json_values import MAX_DECODED_BYTES, EncodedJson, decoded, to_json
from storage.postgres.pool import Pool
from tests.storage.factories import HOUR, NOW, SECOND, new_span, stored_agent, stored_organization
from tests.storage.postgres.explaining_pool import ExplainingPool

pytestmark = pytest.mark.own_database

TOLD = "gen_ai.input.messages"
LONG = "x" * MAX_DECODED_BYTES


@pytest.fixture
def traces(pool: Pool) -> Traces:
    return Traces(pool)


async def stored_trace(traces: Traces, of: Agent) -> Trace:
    trace = Trace(new_id(), of.organization_id, of.id, "invoke_agent Scout", NOW, None, "", {})
    await traces.insert(trace)
    return trace


def content(told: Any, instructions: bytes | None = None, tools: bytes | None = None) -> SpanContent:
    return SpanContent(to_json({TOLD: told}).decode(), None, instructions, tools)


@pytest.mark.parametrize("name", ["chat", LONG])
@pytest.mark.parametrize("told", ["Hello!", LONG])
async def test_content_is_read_as_part_of_the_metadata(
    traces: Traces, pool: Pool, name: str, told: str
) -> None:
    trace = await stored_trace(traces, await stored_agent(pool))
    new = new_span(trace.id, {"name": name}, content=content(told))
    plain = new_span(trace.id, {"name": name}, started_at=NOW + SECOND)
    await traces.insert_spans([new, plain])

    stored = await traces.get_span(new.span.id)
    page = await traces.list_expanded_spans([trace], None, 10, 2**20)
    without = await traces.list_expanded_spans([trace], None, 10, 2**20, has_content=False)

    assert stored is not None
    assert decoded(stored.metadata) == {"name": name, TOLD: told}
    assert [decoded(each.metadata) for each in page] == [{"name": name, TOLD: told}, {"name": name}]
    assert [decoded(each.metadata) for each in without] == [{"name": name}] * 2
    assert isinstance(stored.metadata, EncodedJson) == (LONG in {name, told})


async def test_content_alone_is_the_metadata(traces: Traces, pool: Pool) -> None:
    trace = await stored_trace(traces, await stored_agent(pool))
    short, long = new_span(trace.id, content=content("a")), new_span(trace.id, content=content(LONG))
    await traces.insert_spans([short, long])

    read = [await traces.get_span(new.span.id) for new in (short, long)]

    assert [decoded(each.metadata) for each in read if each] == [{TOLD: "a"}, {TOLD: LONG}]


async def test_shared_parts_are_resolved_in_their_organization_only(traces: Traces, pool: Pool) -> None:
    ours, theirs = await stored_agent(pool), await stored_agent(pool)
    shared = SharedContents(pool)
    prompt = await shared.store(ours.organization_id, b'"Be kind."', NOW)
    tools = await shared.store(ours.organization_id, to_json([LONG]), NOW)
    metadata = []
    for of in (ours, theirs):
        trace = await stored_trace(traces, of)
        new = new_span(trace.id, content=content("Hello!", instructions=prompt, tools=tools))
        await traces.insert_spans([new])
        stored = await traces.get_span(new.span.id)
        [expanded] = await traces.list_expanded_spans([trace], None, 10, 2**20)
        assert stored is not None
        assert decoded(stored.metadata) == decoded(expanded.metadata)
        metadata.append(decoded(stored.metadata))

    shared_parts = {"gen_ai.system_instructions": "Be kind.", "gen_ai.tool.definitions": [LONG]}
    assert metadata == [{TOLD: "Hello!", **shared_parts}, {TOLD: "Hello!"}]


async def test_metadata_of_a_client_hides_content_unless_an_object(traces: Traces, pool: Pool) -> None:
    trace = await stored_trace(traces, await stored_agent(pool))
    spans = [new_span(trace.id, {"a": 1}, content=content("Hello!")) for _ in range(2)]
    await traces.insert_spans(spans)
    for new, replacement in zip(spans, ({"b": 2}, ["b"]), strict=True):
        await traces.end_span(new.span.id, Ending(NOW, has_metadata=True, metadata=replacement))

    read = [await traces.get_span(new.span.id) for new in spans]

    assert [each.metadata for each in read if each] == [{"b": 2, TOLD: "Hello!"}, ["b"]]


async def test_open_span_is_ended_with_its_content(traces: Traces, pool: Pool) -> None:
    trace = await stored_trace(traces, await stored_agent(pool))
    asked = new_span(trace.id, {"a": 1}, ended_at=None, content=content("Hello!"))
    bare = new_span(trace.id, ended_at=None)
    await traces.insert_spans([asked, bare])
    answered = new_span(trace.id, {"a": 2}, id=asked.span.id, content=content(["Hello!", "Hi."]))
    failed = new_span(trace.id, {"b": 1}, id=bare.span.id, error="timeout")

    await traces.end_spans([answered, failed])

    read = [await traces.get_span(new.span.id) for new in (asked, bare)]
    assert [(each.span, each.metadata) for each in read if each] == [
        (answered.span, {"a": 2, TOLD: ["Hello!", "Hi."]}),
        (failed.span, {"b": 1}),
    ]
    assert await traces.count_spans(trace.id) == 2


async def test_long_ends_of_spans_are_stored_in_several_statements(pool: Pool) -> None:
    counting = ExplainingPool(pool)
    traces = Traces(counting)
    trace = await stored_trace(Traces(pool), await stored_agent(pool))
    spans = [new_span(trace.id, ended_at=None) for _ in range(5)]
    await Traces(pool).insert_spans(spans)
    ended = [new_span(trace.id, id=new.span.id, content=content("x" * 300_000)) for new in spans]

    await traces.end_spans(ended)

    assert await pool.fetchval("SELECT count(*) FROM span WHERE ended_at IS NOT NULL") == 5
    assert await pool.fetchval("SELECT count(DISTINCT xmin::text) FROM span") == 5


async def test_page_counts_content_and_shared_parts(traces: Traces, pool: Pool) -> None:
    of = await stored_agent(pool)
    trace = await stored_trace(traces, of)
    tools = await SharedContents(pool).store(of.organization_id, to_json(["y" * 10_000]), NOW)
    spans = [
        new_span(trace.id, content=content("x" * 10_000, tools=tools), started_at=NOW + number * SECOND)
        for number in range(5)
    ]
    await traces.insert_spans(spans)

    page = await traces.list_expanded_spans([trace], None, 10, 45_000)

    assert ([each.span.id for each in page], page.is_cut) == ([new.span.id for new in spans[:2]], True)


async def test_error_on_a_page_is_cut(traces: Traces, pool: Pool) -> None:
    trace = await stored_trace(traces, await stored_agent(pool))
    await traces.insert_spans([new_span(trace.id, error="e" * 5000)])

    [expanded] = await traces.list_expanded_spans([trace], None, 10, 2**20)

    assert expanded.error == "e" * 1000


DAY = timedelta(days=1)


async def test_text_is_stored_once_for_an_organization(pool: Pool) -> None:
    one, other = [(await stored_organization(pool)).id for _ in range(2)]
    first, second = SharedContents(pool), SharedContents(pool)

    digests = [await contents.store(one, b'["a"]', NOW) for contents in (first, second, first)]
    await first.store(other, b'["a"]', NOW)
    await first.store(one, b'["b"]', NOW)

    assert digests == [sha256(b'["a"]').digest()] * 3
    rows = await pool.fetch("SELECT organization_id, digest, content FROM shared_content")
    assert {(row["organization_id"], row["digest"], str(row["content"])) for row in rows} == {
        (one, digests[0], "['a']"),
        (other, digests[0], "['a']"),
        (one, sha256(b'["b"]').digest(), "['b']"),
    }


async def test_use_is_noted_once_a_day(pool: Pool) -> None:
    organization, contents = (await stored_organization(pool)).id, SharedContents(pool)
    used = []
    for now in (NOW, NOW + HOUR, NOW + DAY, NOW):
        await contents.store(organization, b'["a"]', now)
        used.append(await pool.fetchval("SELECT used_at FROM shared_content"))

    assert used == [NOW, NOW, NOW + DAY, NOW + DAY]
