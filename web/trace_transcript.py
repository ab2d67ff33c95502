"""Transcripts: the conversation in the spans of a trace that follow OpenTelemetry's GenAI conventions.

Spans of the service record the messages that are new in each call. Spans of other programs record all
messages of a call, so for their later calls only the messages after the model's last answer are shown.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from storage.history.span_content import INSTRUCTIONS, TOOL_DEFINITIONS
from storage.history.traces import ExpandedSpan
from storage.postgres.json_values import decoded
from supervisors.harness.trace_recorder import EARLIER_MESSAGES, INPUT_MESSAGES, OUTPUT_MESSAGES
from web.schemas.trace_transcripts import (
    CalledToolResponse,
    ModelCallResponse,
    Speaker,
    ToolDefinitionOfTranscript,
    TranscriptEntryResponse,
)

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
