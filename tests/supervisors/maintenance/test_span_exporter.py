"""Spans of ended runs at a real HTTP receiver: in order, at least once, and without content unless asked."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Message
from opentelemetry.proto.trace.v1.trace_pb2 import Status
from structlog.testing import capture_logs

from hostsvc.otlp_receiver import open_otlp_receiver, read_otlp_settings
from storage.events.events import MAX_EVENTS
from storage.history.trace_model import NewSpan, SpanContent, Trace
from storage.ids import new_id
from storage.model import Agent
from storage.postgres.pool import Pool
from storage.storage import Storage
from supervisors.maintenance.span_exporter import MAX_SPANS, ROUND_SECONDS, SpanExporter
from tests.receiver import Receiver, answering, receiving
from tests.storage.factories import NOW, SECOND, new_span, stored_agent
from tests.supervisors.held_clock import HeldClock

END = """
INSERT INTO event (at, type, organization_id, agent_id, run_id) VALUES ($1, 'run.ended', $2, $3, $4)
"""
OTHERS = """
INSERT INTO event (at, type, organization_id) SELECT $1, 'agent.changed', $2 FROM generate_series(1, $3)
"""
GRACE, DUE_AFTER = 5 * SECOND, 10.0


class PassingClock(HeldClock):
    """A clock on which rests take no time."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


@dataclass
class World:
    """An agent whose runs end, a receiver, and the export to it."""

    pool: Pool
    storage: Storage
    agent: Agent
    receiver: Receiver
    clock: HeldClock = field(default_factory=PassingClock)

    async def end_run(self, *spans: NewSpan) -> UUID:
        """Store a run that has just ended, with these spans or one."""
        run_id = spans[0].span.trace_id if spans else new_id()
        agent, now = self.agent, self.clock.now()
        trace = Trace(run_id, agent.organization_id, agent.id, "Ann", NOW, now, "", {})
        await self.storage.traces.insert(trace)
        await self.storage.traces.insert_spans(spans or [new_span(run_id)])
        await self.pool.execute(END, now, agent.organization_id, agent.id, run_id)
        return run_id

    async def export(self, exporter: SpanExporter, seconds: float = DUE_AFTER) -> None:
        self.clock.advance(seconds)
        await exporter.run_once()

    def requests(self) -> list[ExportTraceServiceRequest]:
        return [ExportTraceServiceRequest.FromString(request.body) for request in self.receiver.requests]

    def spans(self) -> list[Message]:
        """Return all spans that came, in their order."""
        resources = [resource for request in self.requests() for resource in request.resource_spans]
        return [span for resource in resources for scope in resource.scope_spans for span in scope.spans]

    def runs(self) -> list[UUID]:
        return [UUID(bytes=span.trace_id) for span in self.spans()]

    @property
    def counts(self) -> dict[str, int]:
        return {name: count for name, count in self.storage.instance.span_exports.items() if count}


@pytest.fixture
async def world(pool: Pool) -> AsyncIterator[World]:
    async with receiving() as receiver:
        storage = Storage(pool, on_commit=lambda _: None, sleep=asyncio.sleep)
        yield World(pool, storage, await stored_agent(pool), receiver)


@pytest.fixture
async def exporter(world: World) -> AsyncIterator[SpanExporter]:
    """Yield an export that has begun."""
    async for exporter in exporting(world):
        await exporter.run_once()
        yield exporter


async def exporting(
    world: World, *, has_content: bool = False, **variables: str
) -> AsyncIterator[SpanExporter]:
    settings = read_otlp_settings({"OTEL_EXPORTER_OTLP_ENDPOINT": world.receiver.url, **variables})
    assert settings is not None
    async with open_otlp_receiver(settings, world.clock) as post:
        parts = (world.storage, post, world.clock, settings.resource, GRACE)
        yield SpanExporter(*parts, has_content)


async def test_runs_are_sent_once_their_processes_are_gone(world: World, exporter: SpanExporter) -> None:
    first = await world.end_run()
    await world.export(exporter, DUE_AFTER - 1)
    assert world.runs() == []
    second = await world.end_run()
    await world.export(exporter, 1)
    assert world.runs() == [first]
    for _ in range(2):
        await world.export(exporter)
    assert world.runs() == [first, second]
    assert world.counts == {"sent": 2}


async def test_runs_from_before_the_first_export_are_not_sent(world: World) -> None:
    await world.end_run()
    async for exporter in exporting(world):
        await world.export(exporter)
        await world.export(exporter)
    assert world.runs() == []


async def test_restart_goes_on_after_what_was_taken(world: World, exporter: SpanExporter) -> None:
    first = await world.end_run()
    await world.export(exporter)
    second = await world.end_run()
    async for restarted in exporting(world):
        await world.export(restarted)
        await world.export(exporter)  # another node has done it
    assert world.runs() == [first, second]


async def test_export_waits_longer_each_time_the_receiver_fails(world: World, exporter: SpanExporter) -> None:
    run_id = await world.end_run()
    world.receiver.answer = answering(500)
    await world.export(exporter)
    for pause in (1, 2, 4, 8, 16, 32, 60, 60):
        before = len(world.receiver.requests)
        await world.export(exporter, pause - 0.5)
        assert len(world.receiver.requests) == before
        await world.export(exporter, 0.5)
        assert len(world.receiver.requests) == before + 1
    world.receiver.answer = answering(503, Retry_After="300")
    await world.export(exporter, 60)
    world.receiver.answer = None
    await world.export(exporter, 299)
    assert len(world.receiver.requests) == 10
    await world.export(exporter, 1)
    assert world.runs() == [run_id] * 11
    assert world.counts == {"failed": 10, "sent": 1}


async def test_absent_receiver_loses_only_what_retention_removes(
    world: World, exporter: SpanExporter
) -> None:
    port, world.receiver.port = world.receiver.port, 1
    async for cut_off in exporting(world):
        expired, kept = await world.end_run(), await world.end_run()
        await world.export(cut_off)
        assert world.counts == {"failed": 1}
    for table, column in (("span", "trace_id"), ("trace", "id")):
        await world.pool.execute(f"DELETE FROM {table} WHERE {column} = $1", expired)  # noqa: S608
    world.receiver.port = port
    await world.export(exporter)
    assert world.runs() == [kept]
    assert world.counts == {"failed": 1, "skipped": 1, "sent": 1}


async def test_unusable_batch_is_given_up_and_counted(world: World, exporter: SpanExporter) -> None:
    await world.end_run()
    world.receiver.answer = answering(400)
    await world.export(exporter)
    partial = ExportTraceServiceResponse()
    partial.partial_success.rejected_spans = 1
    world.receiver.answer = answering(200, partial.SerializeToString())
    run_id = new_id()
    await world.end_run(new_span(run_id), new_span(run_id))
    await world.export(exporter)
    assert world.counts == {"refused": 2, "sent": 1}


async def test_long_run_is_sent_in_bounded_batches(world: World, exporter: SpanExporter) -> None:
    run_id, long = new_id(), {"hostsvc.long": "x" * 300_000}
    spans = [
        new_span(run_id, started_at=NOW + n * SECOND, ended_at=NOW + n * SECOND) for n in range(MAX_SPANS + 7)
    ]
    spans += [new_span(run_id, long, started_at=NOW + 3600 * SECOND, ended_at=None) for _ in range(2)]
    spans += [
        new_span(run_id, long, started_at=NOW + 3600 * SECOND, ended_at=NOW + 3601 * SECOND) for _ in range(8)
    ]
    await world.end_run(*spans)
    await world.end_run()
    await world.export(exporter)
    assert len(world.spans()) == MAX_SPANS + 7 + 8 + 1  # without those that have no end
    assert len({span.span_id for span in world.spans()}) == len(world.spans())
    assert all(request.ByteSize() < 1_000_000 for request in world.requests())
    assert len(world.requests()) == 10


async def test_long_backlog_is_counted_before_it_is_done(world: World, exporter: SpanExporter) -> None:
    async def take(_: web.Request) -> web.Response:
        world.clock.advance(ROUND_SECONDS)
        return web.Response()

    world.receiver.answer = take
    first = await world.end_run()
    await world.pool.execute(OTHERS, world.clock.now(), world.agent.organization_id, MAX_EVENTS)
    second = await world.end_run()
    await world.export(exporter)
    assert (world.runs(), world.counts) == ([first], {"sent": 1})
    await exporter.run_once()
    assert world.runs() == [first, second]


async def test_failed_batch_is_sent_again_without_those_before(world: World, exporter: SpanExporter) -> None:
    run_ids = [new_id() for _ in range(3)]
    for run_id in run_ids:
        await world.end_run(*(new_span(run_id) for _ in range(MAX_SPANS * 2 // 5)))
    take = answering(200)

    async def refuse_second(request: web.Request) -> web.StreamResponse:
        return await (take if len(world.receiver.requests) == 1 else answering(503))(request)

    world.receiver.answer = refuse_second
    await world.export(exporter)
    assert len(world.requests()) == 2
    world.receiver.requests.clear()
    world.receiver.answer = None
    await world.export(exporter)
    assert world.counts == {"failed": 1, "sent": MAX_SPANS * 7 // 5}
    assert set(world.runs()) == {run_ids[2]}


@pytest.mark.parametrize("has_content", [False, True])
async def test_content_is_sent_only_if_asked_for(world: World, has_content: bool) -> None:
    run_id = new_id()
    told = SpanContent('{"gen_ai.input.messages": [{"role": "user"}]}')
    metadata = {
        "gen_ai.operation.name": "chat",
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.response.finish_reasons": ["stop"],
        "hostsvc.usage.cost_usd": 0.5,
        "output": "printed by the process",
        "gen_ai.prompt.0.content": "of a harness",
        "gen_ai.request.notes": "not in the conventions",
    }
    chat = new_span(run_id, metadata, told, parent_id=run_id, error="no answer")
    async for exporter in exporting(world, has_content=has_content):
        await exporter.run_once()
        await world.end_run(chat)
        await world.export(exporter)
    [span] = world.spans()
    values = {each.key: each.value for each in span.attributes}
    assert (values["gen_ai.usage.input_tokens"].int_value, values["hostsvc.usage.cost_usd"].double_value) == (
        7,
        0.5,
    )
    assert [each.string_value for each in values["gen_ai.response.finish_reasons"].array_value.values] == [
        "stop"
    ]
    assert values["hostsvc.organization.id"].string_value == str(world.agent.organization_id)
    content = {"gen_ai.input.messages", "output", "gen_ai.prompt.0.content", "gen_ai.request.notes"}
    assert content & values.keys() == (content if has_content else set())
    if has_content:
        assert values["gen_ai.input.messages"].string_value == '[{"role":"user"}]'
    assert (span.parent_span_id, span.kind) == (run_id.bytes[8:], Message.SPAN_KIND_CLIENT)
    assert (span.status.code, span.status.message) == (Status.STATUS_CODE_ERROR, "no answer")
    assert (span.start_time_unix_nano, span.end_time_unix_nano - span.start_time_unix_nano) == (
        int(NOW.timestamp()) * 10**9,
        10**9,
    )


async def test_request_is_as_the_variables_of_opentelemetry_say(world: World) -> None:
    variables: dict[str, Any] = {
        "OTEL_EXPORTER_OTLP_HEADERS": "api-key=a%20b,x=y",
        "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION": "gzip",
        "OTEL_SERVICE_NAME": "agents",
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=test",
    }
    async for exporter in exporting(world, **variables):
        await exporter.run_once()
        await world.end_run()
        await world.export(exporter)
    [received] = world.receiver.requests
    assert (received.path, received.headers["api-key"], received.headers["x"]) == ("/v1/traces", "a b", "y")
    assert received.headers["Content-Encoding"] == "gzip"
    [request] = world.requests()
    resource = {each.key: each.value.string_value for each in request.resource_spans[0].resource.attributes}
    assert (resource["service.name"], resource["deployment.environment"]) == ("agents", "test")


async def test_moments_that_the_protocol_lacks_hold_up_nothing(world: World, exporter: SpanExporter) -> None:
    early, late = (datetime(year, 1, 1, tzinfo=UTC) for year in (1960, 9000))
    run_id = new_id()
    await world.end_run(new_span(run_id, started_at=early, ended_at=late))
    await world.export(exporter)
    [span] = world.spans()
    assert (span.start_time_unix_nano, span.end_time_unix_nano) == (0, 2**63 - 1)


async def test_batch_that_is_too_large_is_sent_by_halves(world: World, exporter: SpanExporter) -> None:
    run_id = new_id()
    spans = [new_span(run_id, {"hostsvc.long": "x" * 100 * (n == 4)}) for n in range(7)]
    await world.end_run(*spans)
    taken = []

    async def take_little(request: web.Request) -> web.Response:
        body = await request.read()
        if len(body) > 700:
            return web.Response(status=413, text="too large")
        taken.append(ExportTraceServiceRequest.FromString(body))
        return web.Response()

    world.receiver.answer = take_little
    await world.export(exporter)
    sent = [span for each in taken for span in each.resource_spans[0].scope_spans[0].spans]
    assert sorted(span.span_id for span in sent) == sorted(span.span.id.bytes[8:] for span in spans)
    assert world.counts == {"sent": 7}


async def test_single_span_that_is_too_large_is_given_up(world: World, exporter: SpanExporter) -> None:
    await world.end_run()
    world.receiver.answer = answering(413, f"at most 1 kB{'!' * 1000}")
    with capture_logs() as logs:
        await world.export(exporter)
    assert len(world.receiver.requests) == 1
    assert world.counts == {"refused": 1}
    [line] = [line for line in logs if line["event"] == "spans refused by the receiver"]
    assert (line["status"], line["count"]) == (413, 1)
    assert line["reason"] == f"at most 1 kB{'!' * 188}…"


async def test_words_of_a_partial_refusal_are_logged(world: World, exporter: SpanExporter) -> None:
    partial = ExportTraceServiceResponse()
    partial.partial_success.rejected_spans = 1
    partial.partial_success.error_message = "a span is from the future"
    await world.end_run()
    world.receiver.answer = answering(200, partial.SerializeToString())
    with capture_logs() as logs:
        await world.export(exporter)
    assert [line["reason"] for line in logs if "reason" in line] == ["a span is from the future"]
