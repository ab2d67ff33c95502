"""Spans from the real exporter of the OpenTelemetry SDK, and what the protocol says about answers."""

import asyncio
import gzip
import json
from typing import Any
from uuid import UUID

import pytest
from google.protobuf.json_format import MessageToJson
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from storage.postgres.pool import Pool
from supervisors.otlp import attributes_of, traceparent_of
from tests.web.api.toolbox.test_agent_tools import start_run
from tests.web.conftest import Answer, Api, Service, StartService

PATH = "/v1/traces"
PROTOBUF, JSON = "application/x-protobuf", "application/json"
SECOND = 1_000_000_000
STARTED = 1_767_225_600 * SECOND  # 2026-01-01


def batch(trace_id: str, *span_ids: str, **fields: Any) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for span_id in span_ids:
        times = {"start_time_unix_nano": STARTED, "end_time_unix_nano": STARTED + SECOND}
        ids = {"trace_id": bytes.fromhex(trace_id), "span_id": bytes.fromhex(span_id)}
        spans.append(Span(**{**times, **ids, "name": "step", **fields}))
    return request


def hex_of(run_id: str) -> str:
    return UUID(run_id).hex


async def send(api: Api, body: bytes, content_type: str = PROTOBUF, **headers: str) -> Answer:
    headers = {"Content-Type": content_type, **headers}
    async with api.client.post(PATH, data=body, headers=headers | authorization_of(api)) as response:
        return Answer(response.status, await response.read(), response.headers)


def authorization_of(api: Api) -> dict[str, str]:
    return {"Authorization": api.authorization} if api.authorization else {}


async def spans_of(api: Api, run_id: str) -> list[Any]:
    trace = (await api.get(f"/api/tracing/traces/{run_id}/?expand=metadata")).body
    return [span for span in trace["spans"] if span["id"] != run_id]


def rejected(answer: Answer) -> int:
    response = ExportTraceServiceResponse.FromString(answer.body)
    return int(response.partial_success.rejected_spans)


@pytest.mark.parametrize("compression", Compression)
async def test_spans_of_the_sdk_hang_below_their_run(
    api: Api, service: Service, compression: Compression
) -> None:
    run_id, run = await start_run(api, await api.create_agent())

    def instrumented() -> None:
        """Do what a program does whose environment has the variables of a run."""
        exporter = OTLPSpanExporter(
            endpoint=f"http://127.0.0.1:{service.address[1]}{PATH}",
            headers=authorization_of(run),
            compression=compression,
        )
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        tracer = provider.get_tracer("program")
        parent = TraceContextTextMapPropagator().extract({"traceparent": traceparent_of(UUID(run_id))})
        with tracer.start_as_current_span("chat gpt-5", context=parent) as chat:
            chat.set_attributes(
                {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 7, "list": ["a"]}
            )
            with pytest.raises(ValueError, match="no such key"), tracer.start_as_current_span("look up"):
                raise ValueError("no such key")
        provider.shutdown()

    await asyncio.to_thread(instrumented)
    chat, look_up = sorted(await spans_of(api, run_id), key=lambda span: str(span["name"]))
    assert (chat["name"], chat["parent"], chat["span_type"], chat["input_tokens"]) == (
        "chat gpt-5",
        run_id,
        "llm",
        7,
    )
    assert chat["metadata"]["list"] == ["a"]
    assert (look_up["parent"], look_up["has_error"]) == (chat["id"], True)
    full = (await api.get(f"/api/tracing/spans/{look_up['id']}/")).body
    assert full["error"] == "ValueError: no such key"
    assert look_up["metadata"]["events"][0]["exception.type"] == "ValueError"


@pytest.mark.parametrize("content_type", [PROTOBUF, f"{JSON}; charset=utf-8"])
async def test_batch_sent_twice_is_stored_once(api: Api, content_type: str) -> None:
    run_id, run = await start_run(api, await api.create_agent())
    request = batch(hex_of(run_id), "aa" * 8, "BB" * 8)
    body = request.SerializeToString()
    if content_type != PROTOBUF:
        value = json.loads(MessageToJson(request))
        for span, name in zip(value["resourceSpans"][0]["scopeSpans"][0]["spans"], ("aa", "BB"), strict=True):
            span |= {"traceId": hex_of(run_id), "spanId": name * 8, "notKnownYet": [1]}
        body = json.dumps(value).encode()
    for _ in range(2):
        answer = await send(run, body, content_type)
        assert (answer.status, answer.body) == (200, b"" if content_type == PROTOBUF else b"{}")
        assert answer.headers["Content-Type"] == content_type.partition(";")[0]
    assert len(await spans_of(api, run_id)) == 2
    await send(run, batch(hex_of(run_id), "aa" * 8, "cc" * 8).SerializeToString())
    assert {span["id"][-2:] for span in await spans_of(api, run_id)} == {"aa", "bb", "cc"}


async def test_foreign_trace_hangs_below_the_run_of_its_token(api: Api) -> None:
    run_id, run = await start_run(api, await api.create_agent())
    for trace_id in ("11" * 16, "22" * 16):
        request = batch(trace_id, "aa" * 8)
        request.MergeFrom(batch(trace_id, "bb" * 8, parent_span_id=b"\xaa" * 8))
        assert rejected(await send(run, request.SerializeToString())) == 0
    spans = await spans_of(api, run_id)
    roots = [span["id"] for span in spans if span["parent"] == run_id]
    assert len(set(roots)) == 2
    assert {span["parent"] for span in spans} == {run_id, *roots}


async def test_key_writes_to_runs_of_its_organization_only(api: Api, other: Api) -> None:
    run_id, _ = await start_run(api, await api.create_agent())
    foreign_id, _ = await start_run(other, await other.create_agent())
    request = batch(hex_of(run_id), "aa" * 8)
    request.MergeFrom(batch(hex_of(foreign_id), "bb" * 8))
    request.MergeFrom(batch("33" * 16, "cc" * 8, "dd" * 8))
    assert rejected(await send(api, request.SerializeToString())) == 3
    assert [span["id"][-2:] for span in await spans_of(api, run_id)] == ["aa"]
    assert await spans_of(other, foreign_id) == []


async def test_unusable_spans_are_counted_and_the_others_stored(api: Api) -> None:
    run_id, run = await start_run(api, await api.create_agent())
    request = batch(hex_of(run_id), "aa" * 8, "bb" * 7, name="a\0" + "b" * 300)
    request.MergeFrom(batch(hex_of(run_id), "cc" * 8, start_time_unix_nano=0))
    request.MergeFrom(
        batch(hex_of(run_id), hex_of(run_id)[16:])
    )  # the run's own, which the run writes itself
    assert rejected(await send(run, request.SerializeToString())) == 2
    [span] = await spans_of(api, run_id)
    assert span["name"] == "a" + "b" * 254


async def test_full_trace_counts_what_it_has_no_room_for(api: Api, pool: Pool) -> None:
    run_id, run = await start_run(api, await api.create_agent())
    await pool.execute("INSERT INTO trace_size (trace_id, span_count) VALUES ($1, 99997)", UUID(run_id))
    answer = await send(run, batch(hex_of(run_id), *(f"{n:016x}" for n in range(1, 6))).SerializeToString())
    partial = ExportTraceServiceResponse.FromString(answer.body).partial_success
    assert partial.rejected_spans == 2
    assert "limits.spans_per_trace" in partial.error_message
    assert len(await spans_of(api, run_id)) == 3


async def test_many_spans_of_one_batch_are_stored(api: Api, pool: Pool) -> None:
    run_id, run = await start_run(api, await api.create_agent())
    some = [f"{n:016x}" for n in range(1, 1202)]
    for span_ids in (some[600:700], some):
        assert rejected(await send(run, batch(hex_of(run_id), *span_ids).SerializeToString())) == 0
    assert await pool.fetchval("SELECT count(*) FROM span WHERE parent_id = $1", UUID(run_id)) == 1201


async def test_long_attributes_are_cut_with_a_note(start_service: StartService) -> None:
    api = await (await start_service(span_metadata_bytes=2048)).new_organization()
    run_id, run = await start_run(api, await api.create_agent())
    request = batch(hex_of(run_id), "aa" * 8)
    span = request.resource_spans[0].scope_spans[0].spans[0]
    span.MergeFrom(Span(attributes=attributes_of({"long": "x" * 100_000, "gen_ai.usage.output_tokens": 5})))
    assert (
        await send(run, gzip.compress(request.SerializeToString()), **{"Content-Encoding": "gzip"})
    ).status == 200
    [stored] = await spans_of(api, run_id)
    assert stored["output_tokens"] == 5
    assert len(json.dumps(stored["metadata"])) < 2048
    assert "hostsvc.content.cut" in stored["metadata"]


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"\xff\xff", {}, 400),
        (b"", {"Authorization": "Bearer nonsense"}, 401),
        (gzip.compress(b"\0" * 2_000_000), {"Content-Encoding": "gzip"}, 413),
        (b"{", {"Content-Type": JSON}, 400),
        (
            b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "xyz"}]}]}]}',
            {"Content-Type": JSON},
            400,
        ),
        (b'{"resourceSpans": 7}', {"Content-Type": JSON}, 400),
        (b"{}", {"Content-Type": "text/plain"}, 415),
        (b"\x0a\x00" * 1000, {}, 400),
        (b"[" + b"{}," * 1000, {"Content-Type": JSON}, 400),
    ],
    ids=[
        "no protobuf",
        "no credential",
        "too long",
        "no JSON",
        "no hexadecimal id",
        "no list",
        "text",
        "many parts",
        "many objects",
    ],
)
async def test_refusals_are_messages_in_the_format_of_the_request(
    api: Api, body: bytes, headers: dict[str, str], status: int
) -> None:
    _, run = await start_run(api, await api.create_agent())
    if "Authorization" in headers:
        run = run.with_authorization(headers["Authorization"])
    answer = await send(
        run,
        body,
        headers.get("Content-Type", PROTOBUF),
        **{name: value for name, value in headers.items() if name == "Content-Encoding"},
    )
    assert answer.status == status
    is_json = "Content-Type" in headers
    assert answer.headers["Content-Type"] == (JSON if is_json else PROTOBUF)
    message = json.loads(answer.body)["message"] if is_json else Status.FromString(answer.body).message
    assert message.endswith(".") or status == 400


async def test_throttled_exporter_is_told_when_to_try_again(start_service: StartService) -> None:
    api = await (await start_service(requests_per_minute=1)).new_organization()
    assert (await send(api, b"")).status == 200
    answer = await send(api, b"")
    assert (answer.status, answer.headers["Retry-After"]) == (429, "60")
    assert Status.FromString(answer.body).message.startswith("Request was throttled.")
