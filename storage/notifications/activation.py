"""When a notification counts: the one rule behind `activated_at`."""

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
    """When a notification last became active, or will be; None for one that is low or cleared.

    `since` is its activation so far, None if it has none or was moved to another time.
    """
    if priority is not Priority.HIGH or cleared:
        return None
    if since is not None:
        return since
    return now if scheduled_for is None else max(scheduled_for, now)
