"""The least change of settings under which a notification would have woken its agent by a moment. Pure.

One setting is tried before two, and among as many the one that is changed least in proportion to its value.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import chain, combinations
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from storage.agent_facts import Budget
from storage.model import Priority
from supervisors.policy.decisions import window_of
from supervisors.policy.explanations import when
from supervisors.policy.limits import WEEK_MINUTES, parse_quiet_hours, quiet_minutes
from supervisors.rewind.recording import Recording
from supervisors.rewind.replay import Replay, Rules

HOUR = timedelta(hours=1)
CENT = Decimal("0.01")
MORE_WAKES = (1, 2, 5)
NONE_FOUND = "No change of at most two settings would have woken it by then."


@dataclass(frozen=True, slots=True)
class LeastChange:
    """The smallest change of settings under which the notification would have woken the agent in time."""

    sentence: str
    """When the notification woke the agent, or would have, and if what; or that no such change would do."""
    patch: dict[str, Any]
    """The settings, named as in a PATCH of the agent, or `priorities` as in a rewind; empty if none."""
    at: datetime | None
    """When the agent would have woken; null if no such change was found."""


@dataclass(frozen=True, slots=True)
class Change:
    """A setting with another value. `size`: the difference in proportion to the value."""

    field: str
    value: Any
    size: float
    rules: Callable[[Rules], Rules]


Run = Callable[[Replay], Replay]  # carries a replay out, within its time


def least_change(recording: Recording, rules: Rules, notification_id: UUID, run: Run) -> LeastChange:
    """Search the least change by replays of the recording, which ends at the moment that is asked about."""
    first = run(Replay(recording, rules, watched=notification_id))
    if first.woken_at is not None:
        return LeastChange(f"It woke at {when(first.woken_at)}.", {}, first.woken_at)
    singles = sorted(_changes(recording, rules, first), key=lambda change: change.size)
    pairs = (pair for pair in combinations(singles, 2) if pair[0].field != pair[1].field)
    by_size = sorted(pairs, key=lambda pair: pair[0].size + pair[1].size)
    for changes in chain(((change,) for change in singles), by_size):
        changed = rules
        for change in changes:
            changed = change.rules(changed)
        woken_at = run(Replay(recording, changed, first.delays, watched=notification_id)).woken_at
        if woken_at is not None:
            said = " and ".join(f"{change.field} were {_said(change.value)}" for change in changes)
            patch = {change.field: change.value for change in changes}
            return LeastChange(f"It would have woken at {when(woken_at)} if {said}.", patch, woken_at)
    return LeastChange(NONE_FOUND, {}, None)


def _said(value: Any) -> str:
    return str(value) if value not in ("", None) else "none"


def _changes(recording: Recording, rules: Rules, replay: Replay) -> Iterator[Change]:
    facts, one = rules.facts, replay.watched
    window, limits = window_of(facts), facts.limits
    if one is not None and one.priority is Priority.LOW:
        source = one.source
        value = [{"source": str(source), "priority": str(Priority.HIGH)}]
        yield Change(
            "priorities",
            value,
            1,
            lambda old: replace(old, priorities={**old.priorities, source: Priority.HIGH}),
        )
    if facts.state.paused or replay.was_paused:
        yield Change("paused", False, 1, lambda old: replace(old, is_never_paused=True))
    came_at = (one and one.came_at) or recording.start
    for seconds in {min(window, int((recording.end - came_at).total_seconds()) - 1), 0} if window else ():
        yield _of_facts("debounce_window_seconds", seconds, 1 - seconds / window, "agent_window_seconds")
    for name in ("max_wakes_per_hour", "max_wakes_per_day"):
        limit = getattr(limits, name)
        for more in MORE_WAKES if limit else ():
            yield _of_limits(name, limit + more, more / limit)
    for text, size in _quiet_hours(limits.quiet_hours, limits.timezone, (came_at, recording.end)):
        yield _of_limits("quiet_hours", text, size)
    for budget in facts.budgets:
        spent_usd = replay.spent_on(recording.end)
        if not budget.of_organization and spent_usd >= budget.cap_usd:
            cap_usd = spent_usd + CENT
            size = float((cap_usd - budget.cap_usd) / (budget.cap_usd or CENT))
            yield _of_budget(budget, cap_usd, size)


def _of_facts(field: str, value: Any, size: float, name: str) -> Change:
    return Change(field, value, size, lambda old: replace(old, facts=replace(old.facts, **{name: value})))


def _of_limits(field: str, value: Any, size: float) -> Change:
    def changed(old: Rules) -> Rules:
        return replace(old, facts=replace(old.facts, limits=replace(old.facts.limits, **{field: value})))

    return Change(field, value, size, changed)


def _of_budget(budget: Budget, cap_usd: Decimal, size: float) -> Change:
    def changed(old: Rules) -> Rules:
        budgets = tuple(replace(one, cap_usd=cap_usd) if one == budget else one for one in old.facts.budgets)
        return replace(old, facts=replace(old.facts, budgets=budgets))

    return Change("max_cost_usd_per_day", float(cap_usd), size, changed)


def _quiet_hours(text: str, timezone: str, moments: tuple[datetime, ...]) -> Iterator[tuple[str, float]]:
    """Yield shorter quiet hours: each period ending at the whole hour before a moment, and none at all."""
    periods = text.split(", ") if text else []
    length = len(quiet_minutes(parse_quiet_hours(text)))
    for place, period in enumerate(periods):
        begins, _, _ = period.rpartition("-")
        for moment in moments:
            end = f"{moment.astimezone(ZoneInfo(timezone)):%H:00}"
            others = [*periods[:place], f"{begins}-{end}", *periods[place + 1 :]]
            minutes = len(quiet_minutes(parse_quiet_hours(", ".join(others))))
            if minutes < length:
                yield ", ".join(others), (length - minutes) / WEEK_MINUTES
    if text:
        yield "", 1
