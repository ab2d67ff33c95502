"""The end of a trace or a span, from the body of a request."""

from datetime import datetime, tzinfo
from typing import Any

from storage.history.traces import Ending
from web.errors import Invalid
from web.request.local_times import localize

TOO_EARLY = "Ensure this is not before started_at."


def ending_of(body: dict[str, Any], started_at: datetime, zone: tzinfo, now: datetime) -> Ending:
    """Return the end that a body describes; without a time it is now, or the start if that is later.

    Raise Invalid for an end before the start.
    """
    localize(body, ("ended_at",), zone)
    ended_at: datetime | None = body.get("ended_at")
    check_order(started_at, ended_at)
    return Ending(
        ended_at=ended_at or max(now, started_at),
        name=body.get("name"),
        error=body.get("error"),
        has_metadata="metadata" in body,
        metadata=body.get("metadata"),
    )


def check_order(started_at: datetime, ended_at: datetime | None) -> None:
    """Raise Invalid for an end before its start."""
    if ended_at is not None and ended_at < started_at:
        raise Invalid({"ended_at": [TOO_EARLY]})
