"""Transcripts: a trace as the conversation with its model."""

from datetime import datetime
from enum import StrEnum
from typing import Any, TypedDict
from uuid import UUID

from web.fields import Integer, Uuid
from web.request.parsing import Body

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
