"""Recorded content: what a model was told and answered, in the form of OpenTelemetry's GenAI conventions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson

from storage.history.trace_model import SpanContent
from storage.model import Content, Template
from storage.postgres.json_values import to_json
from supervisors.llm.port import ChatMessage, ChatRole, ModelResponse, ToolCall
from supervisors.settings import TracingSettings
from supervisors.text import shorten
from supervisors.tools.toolkit import ToolDefinition

INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
EARLIER_MESSAGES = "hostsvc.input.earlier_messages"
CUT = "hostsvc.content.cut"
SPARE_BYTES = 200  # for the note about a cut


@dataclass(frozen=True, slots=True)
class ContentPolicy:
    """How the content of a run's spans is stored: by whose retention, and at most how long for each span."""

    template_id: UUID | None
    max_bytes: int

    def content(
        self, content: dict[str, Any], instructions: bytes | None = None, tools: bytes | None = None
    ) -> SpanContent:
        """Return the content to store. If it is too long, its longest texts are cut, and a note says so."""
        text = to_json(content)
        if len(text) > self.max_bytes:
            text = _shortened(text, self.max_bytes)
        return SpanContent(text.decode(), self.template_id, instructions, tools)


def content_policy(
    template: Template | None, settings: TracingSettings, max_bytes: int
) -> ContentPolicy | None:
    """Return how the content of a run is stored; None if it is not recorded."""
    content = (template.content if template else "") or settings.content
    if content == Content.NONE:
        return None
    return ContentPolicy(template.id if template else None, max_bytes)


def _shortened(text: bytes, max_bytes: int) -> bytes:
    cut, note = shorten(orjson.loads(text), max_bytes - SPARE_BYTES)
    if isinstance(cut, dict):
        return to_json({**cut, CUT: note})
    return to_json({CUT: f"It was too long to be kept: {len(text)} bytes of JSON."})


def instructions_json(messages: Sequence[ChatMessage], max_bytes: int) -> bytes:
    """Return the system instructions among the messages as JSON; blank if there are none."""
    texts = [message.text for message in messages if message.role is ChatRole.SYSTEM]
    if not texts:
        return b""
    return to_json(shorten([{"type": "text", "content": text} for text in texts], max_bytes)[0])


def definitions_json(tools: Sequence[ToolDefinition], max_bytes: int) -> bytes:
    """Return the tool definitions as JSON; blank if there are none."""
    if not tools:
        return b""
    definitions = [
        {
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
        }
        for tool in tools
    ]
    text = to_json(definitions)
    return text if len(text) <= max_bytes else to_json(shorten(definitions, max_bytes)[0])


def input_messages(messages: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    """Return the messages to a model, without its system instructions."""
    return [
        {"role": message.role.value, "parts": _parts(message)}
        for message in messages
        if message.role is not ChatRole.SYSTEM
    ]


def output_messages(answer: ModelResponse) -> list[dict[str, Any]]:
    """Return the answer of a model as its only output message."""
    reasoning = [{"type": "reasoning", "content": answer.reasoning}] if answer.reasoning else []
    parts = [*reasoning, *_parts(answer.as_message())]
    return [{"role": ChatRole.ASSISTANT.value, "parts": parts, "finish_reason": answer.finish_reason}]


def _parts(message: ChatMessage) -> list[dict[str, Any]]:
    if message.role is ChatRole.TOOL:
        response = _json_or_text(message.text)
        return [{"type": "tool_call_response", "id": message.tool_call_id, "response": response}]
    texts = [{"type": "text", "content": message.text}] if message.text else []
    return [*texts, *map(_tool_call, message.tool_calls)]


def _tool_call(call: ToolCall) -> dict[str, Any]:
    arguments = _json_or_text(call.arguments)
    return {"type": "tool_call", "id": call.id, "name": call.name, "arguments": arguments}


def _json_or_text(text: str) -> Any:
    """Return a JSON text as it is written, without a copy of its values; any other text as a string."""
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    return orjson.Fragment(text)
