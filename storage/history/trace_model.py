"""Traces and spans: what runs did, step by step, as plain values."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

MILLISECOND = timedelta(milliseconds=1)


class Lasting:
    """Something with a start, and with an end once it is over."""

    __slots__ = ()

    started_at: datetime
    ended_at: datetime | None

    @property
    def duration_ms(self) -> int | None:
        """The duration in whole milliseconds; None while there is no end."""
        return None if self.ended_at is None else (self.ended_at - self.started_at) // MILLISECOND


@dataclass(frozen=True, slots=True)
class Trace(Lasting):
    id: UUID
    organization_id: UUID
    agent_id: UUID
    name: str
    started_at: datetime
    ended_at: datetime | None
    error: str
    metadata: Any


@dataclass(frozen=True, slots=True)
class Span(Lasting):
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
class SpanSummary(Lasting):
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
