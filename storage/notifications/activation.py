"""Activation: the one rule behind `activated_at`."""

from datetime import datetime

from storage.model import Priority


def activation(
    priority: Priority,
    scheduled_for: datetime | None,
    now: datetime,
    *,
    cleared: bool = False,
    since: datetime | None = None,
) -> datetime | None:
    """Return the time at which a notification became or becomes active; None if it is low or cleared.

    `since` is its present activation; None if it has none, or if `scheduled_for` has just been changed.
    """
    if priority is not Priority.HIGH or cleared:
        return None
    if since is not None:
        return since
    return now if scheduled_for is None else max(scheduled_for, now)
