"""Traces and spans: what runs did, step by step, as plain values."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypedDict, cast
from uuid import UUID

INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
COST_USD = "hostsvc.usage.cost_usd"

MAX_NUMBER = 2**53 - 1  # clients write the attributes, and many read numbers as doubles


class SpanUsage(TypedDict):
    """The fields of a span that say what it used; each is None if its attributes do not tell."""

    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    cost_usd: float | None


# The attribute of each field, and its types. A bool is neither a count nor an amount.
USAGE_ATTRIBUTES: Mapping[str, tuple[str, tuple[type, ...]]] = {
    "input_tokens": (INPUT_TOKENS, (int,)),
    "output_tokens": (OUTPUT_TOKENS, (int,)),
    "cached_tokens": (CACHED_TOKENS, (int,)),
    "cost_usd": (COST_USD, (int, float)),
}
NO_USAGE: SpanUsage = {"input_tokens": None, "output_tokens": None, "cached_tokens": None, "cost_usd": None}


def usage_of(metadata: Any) -> SpanUsage:
    """Return what a span with this metadata used. Attributes that are no counts or amounts are ignored."""
    if not isinstance(metadata, dict):
        return NO_USAGE
    usage = dict(NO_USAGE)
    for field, (attribute, types) in USAGE_ATTRIBUTES.items():
        value: Any = metadata.get(attribute)
        if type(value) in types and 0 <= value <= MAX_NUMBER:
            usage[field] = value
    return cast(SpanUsage, usage) if any(usage.values()) else NO_USAGE


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
    """One step of a run, without its metadata. `usage_of` reads what it used from the metadata."""

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
