"""Traces and spans: what runs did, step by step, as plain values."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Trace:
    id: UUID
    organization_id: UUID
    agent_id: UUID
    name: str
    started_at: datetime
    ended_at: datetime | None
    error: str
    metadata: Any


@dataclass(frozen=True, slots=True)
class Span:
    """One step of a run, without its metadata. `span_usage.usage_of` reads what it used from the metadata."""

    id: UUID
    trace_id: UUID
    parent_id: UUID | None
    name: str
    span_type: str
    started_at: datetime
    ended_at: datetime | None
    error: str
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None

    @property
    def has_error(self) -> bool:
        return bool(self.error)


@dataclass(frozen=True, slots=True)
class SpanSummary:
    """A span as pages of spans show it."""

    id: UUID
    trace_id: UUID
    parent_id: UUID | None
    name: str
    span_type: str
    started_at: datetime
    ended_at: datetime | None
    has_error: bool
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class SpanContent:
    """What a model or a tool was told and answered: members of the span's metadata with their own retention.

    `text` is a JSON object. `instructions` and `tools` are digests of the system prompt and of the tool
    definitions. The template decides how long the content is kept.
    """

    text: str
    template_id: UUID | None = None
    instructions: bytes | None = None
    tools: bytes | None = None


@dataclass(frozen=True, slots=True)
class NewSpan:
    """A span to be stored, with its metadata as JSON text."""

    span: Span
    metadata: str
    content: SpanContent | None = None

    @property
    def length(self) -> int:
        """Return the number of characters of its metadata and content."""
        return len(self.metadata) + (len(self.content.text) if self.content else 0)
