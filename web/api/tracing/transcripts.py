"""Transcripts: traces read as conversations."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, TypedDict
from uuid import UUID

import orjson
from aiohttp import web

from storage.history.spans import INSTRUCTIONS, TOOL_DEFINITIONS
from storage.history.trace_model import Trace
from storage.history.traces import ExpandedSpan
from storage.postgres.json_values import decoded
from supervisors.harness.trace_recorder import EARLIER_MESSAGES, INPUT_MESSAGES, OUTPUT_MESSAGES
from web.access.auth import Caller, RunAccess
from web.access.path_access import load_of_agent
from web.api.tracing.spans import span_cursor
from web.app_keys import ROOM, STORAGE
from web.fields import Integer, Uuid
from web.json import JSON_TYPE, MAX_ANSWER_BYTES, to_json
from web.paging import next_link
from web.request.parsing import Body, read_query
from web.routes import Routes

MAX_SPANS = 1000


class Speaker(StrEnum):
    """Who speaks in an entry of a transcript."""

    SYSTEM = "system"
    """The system prompt."""
    USER = "user"
    """What the model was told: why the agent woke, what arrived during the run."""
    ASSISTANT = "assistant"
    """What the model answered: a text, calls of tools, or both."""
    TOOL = "tool"
    """What a tool returned."""


class TraceTranscriptQuery(Body):
    """Which part of a transcript: that of `limit` spans, from the one after the span `after`."""

    limit = Integer(min_value=1, max_value=MAX_SPANS, load_default=MAX_SPANS)
    """The maximum number of spans to read; a `Link` header leads to the next page while there is one."""
    after = Uuid(load_default=None)
    """The id of the last span of the previous page: the transcript goes on with the spans that follow it."""


class CalledToolResponse(TypedDict):
    """A tool call that a model asked for."""

    id: str
    """The id that the model gave the call."""
    name: str
    """The name of the tool."""
    arguments: Any
    """The arguments, parsed if they are JSON."""


class ModelCallResponse(TypedDict):
    """One call of a model."""

    provider: str
    """The provider; "" if it is not recorded."""
    model: str
    """The model as the provider names it, or else as it was asked for; "" if neither is recorded."""
    finish_reason: str
    """Why the answer ended, in the terms of the provider; "" if it did not end."""
    input_tokens: int | None
    """The tokens that the model read; null if they are not recorded."""
    output_tokens: int | None
    """The tokens that the model wrote; null if they are not recorded."""
    cached_tokens: int | None
    """The part of `input_tokens` that came from the provider's cache; null if it is not recorded."""
    cost_usd: float | None
    """What the call cost in US dollars; null if it is not recorded, or if the model has no known price."""


class TranscriptEntryResponse(TypedDict):
    """One turn of a speaker."""

    role: Speaker
    """Who speaks."""
    span: UUID
    """The span that records it."""
    at: datetime
    """When the call of the model or the tool began."""
    duration_ms: int | None
    """How many milliseconds the call of the model or the tool took; null while it goes on, and for what a
    model was told."""
    text: str
    """The text that was spoken; "" if there is none."""
    reasoning: str
    """What the model thought before it answered, as far as its provider shows it; else ""."""
    tool_calls: list[CalledToolResponse]
    """The tool calls that the model asked for."""
    tool: str
    """The name of the tool; "" if no tool speaks."""
    tool_call: str
    """The id of the tool call; "" if no tool speaks."""
    arguments: Any
    """The arguments of the tool's call, parsed if they are JSON; null if no tool speaks."""
    result: Any
    """What the tool returned; null if it failed, or if no tool speaks."""
    call: ModelCallResponse | None
    """The call of the model; null if no model speaks."""
    error: str
    """Why the call of the model or the tool failed, at most 1,000 characters; "" if it did not."""


class ToolDefinitionOfTranscript(TypedDict):
    """A tool that the model could call."""

    name: str
    """Its name."""
    description: str
    """Its description."""
    parameters: Any
    """The JSON Schema of its arguments."""


class TraceTranscriptResponse(TypedDict):
    """A trace as the conversation with its model, or a part of it."""

    trace: UUID
    """The trace; that of a run has the run's id."""
    agent: UUID
    """The agent that the trace is about, which may have been deleted."""
    name: str
    """The name of the trace."""
    started_at: datetime
    """When the trace started."""
    ended_at: datetime | None
    """When it ended; null while it is open."""
    error: str
    """Why it failed; "" if it did not."""
    tools: list[ToolDefinitionOfTranscript]
    """The tools that the model could call, as the last call on this page that records them was sent them."""
    entries: list[TranscriptEntryResponse]
    """The turns of the speakers in the order of time."""


Json = dict[str, Any]
ROLES = {"system": Speaker.SYSTEM, "assistant": Speaker.ASSISTANT, "tool": Speaker.TOOL}


@dataclass(frozen=True, slots=True)
class _Step:
    """A span with its attributes."""

    expanded: ExpandedSpan
    attributes: Json

    @property
    def is_call(self) -> bool:
        return self.attributes.get("gen_ai.operation.name") == "chat" or self.expanded.span.span_type == "llm"

    @property
    def is_tool(self) -> bool:
        operation = self.attributes.get("gen_ai.operation.name")
        return operation == "execute_tool" or self.expanded.span.span_type == "tool"

    def text(self, name: str) -> str:
        value = self.attributes.get(name)
        return value if isinstance(value, str) else ""

    def number(self, name: str) -> Any:
        value = self.attributes.get(name)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def transcript(
    spans: Sequence[ExpandedSpan], *, is_first_page: bool
) -> tuple[list[TranscriptEntryResponse], list[ToolDefinitionOfTranscript]]:
    """Return the turns that these spans record, and the tools that the model could call."""
    steps = [
        _Step(each, attributes if isinstance(attributes := decoded(each.metadata), dict) else {})
        for each in spans
    ]
    shown = {step.text("gen_ai.tool.call.id") for step in steps if step.is_tool}
    entries: list[TranscriptEntryResponse] = []
    tools: list[ToolDefinitionOfTranscript] = []
    is_first_call = is_first_page
    for step in steps:
        if step.is_tool:
            entries.append(_tool_entry(step))
        elif step.is_call:
            entries.extend(_told(step, shown, is_first_call=is_first_call))
            entries.append(_answer(step))
            tools = list(_definitions(step)) or tools
            is_first_call = False
    return entries, tools


def _told(step: _Step, shown: set[str], *, is_first_call: bool) -> Iterator[TranscriptEntryResponse]:
    """Yield what the model was told, without the results of tools whose spans are shown."""
    instructions = "\n".join(map(_text_of, _dicts(step.attributes.get(INSTRUCTIONS))))
    if instructions:
        yield _entry(step, Speaker.SYSTEM, text=instructions)
    earlier = step.number(EARLIER_MESSAGES)
    messages = _dicts(step.attributes.get(INPUT_MESSAGES))
    if earlier is None and not is_first_call:
        messages = _after_last_answer(messages)
    for message in messages:
        role = ROLES.get(message.get("role", ""), Speaker.USER)
        parts = _dicts(message.get("parts"))
        if role is not Speaker.TOOL:
            yield _entry(step, role, **_spoken(parts))
        elif not earlier:  # in later calls of a run of the service, the tools' own spans tell it
            yield from (_told_result(step, part) for part in parts if part.get("id") not in shown)


def _after_last_answer(messages: list[Json]) -> list[Json]:
    answers = [place for place, message in enumerate(messages) if message.get("role") == "assistant"]
    return messages[answers[-1] + 1 :] if answers else messages


def _told_result(step: _Step, part: Json) -> TranscriptEntryResponse:
    result = part.get("response", part.get("result"))
    return _entry(step, Speaker.TOOL, tool_call=_string(part.get("id")), result=result)


def _answer(step: _Step) -> TranscriptEntryResponse:
    """Return what the model answered; the entry is empty while the call goes on."""
    messages = _dicts(step.attributes.get(OUTPUT_MESSAGES))
    parts = [part for message in messages for part in _dicts(message.get("parts"))]
    reasons = step.attributes.get("gen_ai.response.finish_reasons") or [
        message.get("finish_reason") for message in messages
    ]
    call: ModelCallResponse = {
        "provider": step.text("gen_ai.provider.name"),
        "model": step.text("gen_ai.response.model") or step.text("gen_ai.request.model"),
        "finish_reason": _string(reasons[0]) if isinstance(reasons, list) and reasons else "",
        "input_tokens": step.number("gen_ai.usage.input_tokens"),
        "output_tokens": step.number("gen_ai.usage.output_tokens"),
        "cached_tokens": step.number("gen_ai.usage.cache_read.input_tokens"),
        "cost_usd": step.number("hostsvc.usage.cost_usd"),
    }
    return _entry(step, Speaker.ASSISTANT, **_timed(step), **_spoken(parts), call=call)


def _tool_entry(step: _Step) -> TranscriptEntryResponse:
    return _entry(
        step,
        Speaker.TOOL,
        **_timed(step),
        tool=step.text("gen_ai.tool.name") or step.expanded.span.name.removeprefix("execute_tool "),
        tool_call=step.text("gen_ai.tool.call.id"),
        arguments=_parsed(step.attributes.get("gen_ai.tool.call.arguments")),
        result=_parsed(step.attributes.get("gen_ai.tool.call.result")),
    )


def _timed(step: _Step) -> Json:
    return {"duration_ms": step.expanded.span.duration_ms, "error": step.expanded.error}


def _entry(step: _Step, role: Speaker, **fields: Any) -> TranscriptEntryResponse:
    entry: TranscriptEntryResponse = {
        "role": role,
        "span": step.expanded.span.id,
        "at": step.expanded.span.started_at,
        "duration_ms": None,
        "text": "",
        "reasoning": "",
        "tool_calls": [],
        "tool": "",
        "tool_call": "",
        "arguments": None,
        "result": None,
        "call": None,
        "error": "",
    }
    entry.update(fields)  # type: ignore[typeddict-item]  # the callers name fields of the entry
    return entry


def _spoken(parts: list[Json]) -> Json:
    """Return the texts, the reasoning and the tool calls among the parts of a message."""
    kinds: dict[str, list[Json]] = {"text": [], "reasoning": [], "tool_call": []}
    for part in parts:
        kinds.get(part.get("type", ""), []).append(part)
    return {
        "text": "\n".join(map(_text_of, kinds["text"])),
        "reasoning": "\n".join(map(_text_of, kinds["reasoning"])),
        "tool_calls": [_called(part) for part in kinds["tool_call"]],
    }


def _called(part: Json) -> CalledToolResponse:
    return {
        "id": _string(part.get("id")),
        "name": _string(part.get("name")),
        "arguments": _parsed(part.get("arguments")),
    }


def _definitions(step: _Step) -> Iterator[ToolDefinitionOfTranscript]:
    for tool in _dicts(step.attributes.get(TOOL_DEFINITIONS)):
        yield {
            "name": _string(tool.get("name")),
            "description": _string(tool.get("description")),
            "parameters": tool.get("parameters"),
        }


def _dicts(value: Any) -> list[Json]:
    """Return the objects in a list, which some programs record as its JSON text."""
    value = _parsed(value)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _parsed(value: Any) -> Any:
    """Return the value of a JSON text; any other value as it is."""
    if not isinstance(value, str):
        return value
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        return value


def _text_of(part: Json) -> str:
    return _string(part.get("content"))


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""


routes = Routes()


@routes.get(
    "/api/tracing/traces/{id}/transcript/",
    answer=TraceTranscriptResponse,
    query=TraceTranscriptQuery,
    run_access=RunAccess.RUNNING,
)
async def get_transcript(request: web.Request, caller: Caller) -> web.Response:
    """Read a trace as a conversation: what the model was told, answered and called, and what it got.

    It is read from the spans that follow OpenTelemetry's GenAI conventions, also those of a harness of your
    own. A page ends after about 1 MiB of them; a `Link` header then names the next one.
    """
    traces = request.app[STORAGE].traces
    trace = await load_of_agent(request, caller, traces.get)
    query = read_query(request)
    after = await span_cursor(traces, trace.id, query["after"])
    async with request.app[ROOM].reading(caller.accountable):  # it reads up to two megabytes
        spans = await traces.list_expanded_spans([trace], after, query["limit"], MAX_ANSWER_BYTES)
        text = await asyncio.to_thread(_transcript_json, trace, spans, is_first_page=after is None)
    headers = next_link(request, spans[-1].span.id, query["limit"]) if spans.is_cut else {}
    return web.Response(body=text, headers={**headers, "Content-Type": JSON_TYPE})


def _transcript_json(trace: Trace, spans: list[ExpandedSpan], *, is_first_page: bool) -> bytes:
    entries, tools = transcript(spans, is_first_page=is_first_page)
    response: TraceTranscriptResponse = {
        "trace": trace.id,
        "agent": trace.agent_id,
        "name": trace.name,
        "started_at": trace.started_at,
        "ended_at": trace.ended_at,
        "error": trace.error,
        "tools": tools,
        "entries": entries,
    }
    return to_json(response)
