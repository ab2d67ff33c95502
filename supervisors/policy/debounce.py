"""Debounce: how long inbound conversation is held before it wakes an agent. Pure: values in, values out."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from storage.agent_facts import PendingGroup


@dataclass(frozen=True, slots=True)
class Hold:
    """A wake that waits for a quiet moment: from the first held message to `due_at`."""

    window_seconds: int
    first_at: datetime
    last_at: datetime
    due_at: datetime
    count: int  # of its messages
    latest_at: datetime  # `due_at` if the conversation goes on

    @property
    def is_capped(self) -> bool:
        """Return whether the hold has reached its cap: another message no longer extends it."""
        return self.due_at < self.last_at + timedelta(seconds=self.window_seconds)


def effective_window(agent_seconds: int | None, template_seconds: int | None) -> int:
    """Return the agent's own window if it has one (0 included), else its template's, else 0."""
    if agent_seconds is not None:
        return agent_seconds
    return template_seconds or 0


def max_hold_seconds(window_seconds: int, cap_seconds: int) -> int:
    """Return the longest length of a hold: ten windows, at most the cap, but at least two windows."""
    return max(2 * window_seconds, min(10 * window_seconds, cap_seconds))


def hold_length(lasted: timedelta, window_seconds: int, cap_seconds: int) -> timedelta:
    """Return the length of a hold whose last message came `lasted` after its first."""
    longest = timedelta(seconds=max_hold_seconds(window_seconds, cap_seconds))
    return min(lasted + timedelta(seconds=window_seconds), longest)


def hold_for(held: Iterable[PendingGroup], window_seconds: int, cap_seconds: int) -> Hold | None:
    """Return the hold over these conversational notifications; None without any, or with a window of 0.

    It ends one window after the last of them, but at most `max_hold_seconds` after the first.
    """
    groups = tuple(held)
    if not groups or window_seconds == 0:
        return None
    first_at, last_at = min(group.first_at for group in groups), max(group.last_at for group in groups)
    length = hold_length(last_at - first_at, window_seconds, cap_seconds)
    count = sum(group.count for group in groups)
    latest_at = first_at + timedelta(seconds=max_hold_seconds(window_seconds, cap_seconds))
    return Hold(window_seconds, first_at, last_at, first_at + length, count, latest_at)
