"""The tokens and the cost of a span, read from its attributes by the names of OpenTelemetry."""

from typing import Any, TypedDict

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


NO_USAGE: SpanUsage = {"input_tokens": None, "output_tokens": None, "cached_tokens": None, "cost_usd": None}


def usage_of(metadata: Any) -> SpanUsage:
    """Return what a span with this metadata used. Attributes that are no counts or amounts are ignored."""
    if not isinstance(metadata, dict):
        return NO_USAGE
    usage: SpanUsage = {
        "input_tokens": _count(metadata.get(INPUT_TOKENS)),
        "output_tokens": _count(metadata.get(OUTPUT_TOKENS)),
        "cached_tokens": _count(metadata.get(CACHED_TOKENS)),
        "cost_usd": _amount(metadata.get(COST_USD)),
    }
    return usage if any(usage.values()) else NO_USAGE


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value <= MAX_NUMBER else None


def _amount(value: Any) -> float | None:
    is_amount = type(value) in (int, float) and 0 <= value <= MAX_NUMBER
    return float(value) if is_amount else None
