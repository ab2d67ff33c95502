"""The least change of settings under which a notification would have woken its agent by a moment. Pure.

One setting is tried before two, and among as many the one that is changed least in proportion to its value.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import ROUND_DOWN, Decimal
from itertools import combinations
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from storage.agent_facts import WAKE_LIMITS
from storage.model import Priority, Source
from supervisors.policy.decisions import window_of
from supervisors.policy.explanations import when
from supervisors.policy.limits import WEEK_MINUTES, parse_quiet_hours, quiet_minutes
from supervisors.rewind.recording import Recording
from supervisors.rewind.replay import Replay, Rules

SECOND = timedelta(seconds=1)
CENT = Decimal("0.01")
MORE_WAKES = (1, 2, 5)
WORDS = {
    "debounce_window_seconds": "a window of {} s",
    "max_sleep_hours": "sleeps of at most {} h",
    "max_cost_usd_per_day": "a cap of {:.2f} USD a day",
    "max_wakes_per_hour": "wakes limited to {} an hour",
    "max_wakes_per_day": "wakes limited to {} a day",
    "quiet_hours": "quiet hours of {}",
    "template_id": "the template {}",
}
NONE_FOUND = "No change of at most two settings would have woken it by then."


@dataclass(frozen=True, slots=True)
class LeastChange:
    """The smallest change of settings under which the notification would have woken the agent in time."""

    sentence: str
    """When the notification woke the agent, in the agent's time zone, or would have and with which settings;
    or that no such change would do."""
    patch: Mapping[str, Any]
    """The settings, named as in a PATCH of the agent, or `priorities` as in a rewind; empty if none."""
    at: datetime | None
    """When the agent would have woken; null if no such change was found."""


Change = tuple[float, dict[str, Any]]  # its size, in proportion to the value, and the patch
AS_IT_IS: Change = 0, {}  # settings may have changed since
Run = Callable[[Replay], Replay]  # carries a replay out, within its time


def least_change(
    rules: Rules, notification_id: UUID, zone: ZoneInfo, recording: Recording, run: Run
) -> LeastChange:
    """Search the least change by replays of the recording, which ends at the moment that is asked about.

    The answer tells times in the time zone.
    """
    first = run(Replay(recording, rules, watched=notification_id))
    if first.woken_at is not None:
        return LeastChange(f"It woke at {when(first.woken_at, zone)}.", {}, first.woken_at)
    singles = list(_changes(recording, rules, first))
    pairs = [
        (size + other_size, {**patch, **other})
        for (size, patch), (other_size, other) in combinations(singles, 2)
        if patch.keys() != other.keys()
    ]
    for changes in ([AS_IT_IS], singles, pairs):
        for _, patch in sorted(changes, key=lambda change: change[0]):
            replay = Replay(recording, _changed(rules, patch), first.delays, watched=notification_id)
            woken_at = run(replay).woken_at
            if woken_at is not None:
                sentence = f"It would have woken at {when(woken_at, zone)} with {in_words(patch)}."
                return LeastChange(sentence, patch, woken_at)
    return LeastChange(NONE_FOUND, {}, None)


def _changes(recording: Recording, rules: Rules, replay: Replay) -> Iterator[Change]:
    """Yield patches of one setting that let the agent wake earlier."""
    facts, one = rules.facts, replay.watched
    came_at = (one and one.came_at) or recording.start
    if one is not None and one.priority is Priority.LOW:
        yield 1, {"priorities": [{"source": str(one.source), "priority": str(Priority.HIGH)}]}
    if facts.state.paused or replay.was_paused:
        yield 1, {"paused": False}
    window, limits = window_of(facts), facts.limits
    for seconds in {min(window, (recording.end - came_at) // SECOND - 1), 0} if window else ():
        yield 1 - seconds / window, {"debounce_window_seconds": seconds}
    for name in ("max_wakes_per_hour", "max_wakes_per_day"):
        limit = getattr(limits, name)
        for more in MORE_WAKES if limit else ():
            yield more / limit, {name: limit + more}
    for size, text in _quiet_hours(limits.quiet_hours, limits.timezone, (came_at, recording.end)):
        yield size, {"quiet_hours": text}
    spent_usd = replay.spent_on(recording.end)
    for budget in facts.budgets:
        if not budget.of_organization and spent_usd >= budget.cap_usd:
            cap_usd = (spent_usd + CENT).quantize(CENT, ROUND_DOWN)
            raised_by = (cap_usd - budget.cap_usd) / (budget.cap_usd or CENT)
            yield float(raised_by), {"max_cost_usd_per_day": float(cap_usd)}


def _quiet_hours(text: str, timezone: str, moments: tuple[datetime, ...]) -> Iterator[tuple[float, str]]:
    """Yield shorter quiet hours: each period ending at the hour before a moment, or left out; or none."""
    periods = text.split(", ") if text else []
    length = len(quiet_minutes(parse_quiet_hours(text)))
    ends = [f"{moment.astimezone(ZoneInfo(timezone)):%H:00}" for moment in moments]
    for place, period in enumerate(periods):
        begins, _, _ = period.rpartition("-")
        for instead in (*([f"{begins}-{end}"] for end in ends), []):
            shorter = ", ".join([*periods[:place], *instead, *periods[place + 1 :]])
            minutes = len(quiet_minutes(parse_quiet_hours(shorter)))
            if minutes < length:
                yield (length - minutes) / WEEK_MINUTES, shorter
    if len(periods) > 1:
        yield 1, ""


def _changed(rules: Rules, patch: Mapping[str, Any]) -> Rules:
    """Return the rules with the settings of a patch from `_changes`."""
    facts = rules.facts
    limits = replace(facts.limits, **{name: patch[name] for name in WAKE_LIMITS if name in patch})
    window = patch.get("debounce_window_seconds", facts.agent_window_seconds)
    cap = patch.get("max_cost_usd_per_day")
    budgets = tuple(
        one if one.of_organization or cap is None else replace(one, cap_usd=Decimal(str(cap)))
        for one in facts.budgets
    )
    raised = {Source(rule["source"]): Priority(rule["priority"]) for rule in patch.get("priorities", ())}
    return replace(
        rules,
        facts=replace(facts, limits=limits, agent_window_seconds=window, budgets=budgets),
        priorities={**rules.priorities, **raised},
        is_never_paused="paused" in patch,
    )


def in_words(patch: Mapping[str, Any]) -> str:
    """Name the settings of a patch, as they follow "with"; those of today if it has none."""
    said = [words.format(patch[name]) for name, words in WORDS.items() if patch.get(name) not in (None, "")]
    said += [f"no {_plain(name)} of its own" for name in WORDS if patch.get(name, 0) is None]
    said += ["no quiet hours"] if patch.get("quiet_hours") == "" else []
    said += ["no pause"] if "paused" in patch else []
    priorities = {rule["source"]: rule["priority"] for rule in patch.get("priorities", ())}
    said += [f"{priority} priority for {source}" for source, priority in priorities.items()]
    said += ["other times of its schedules"] if patch.get("schedules") else []
    return " and ".join(filter(None, (", ".join(said[:-1]), said[-1]))) if said else "the settings of today"


def _plain(name: str) -> str:
    return name.removesuffix("_id").removesuffix("_seconds").replace("_", " ")
