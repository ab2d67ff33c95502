"""Bounds: what the settings of an agent guarantee, computed from its facts. Pure."""

from dataclasses import dataclass, fields

from storage.agent_facts import AgentFacts
from supervisors.policy.decisions import Policy, max_hold_seconds, window_of
from supervisors.policy.limits import longest_quiet_minutes

HOUR_SECONDS = 3600
DAY_SECONDS = 25 * HOUR_SECONDS  # of a day on which clocks are set back, at most


@dataclass(frozen=True, slots=True)
class Bound:
    """A maximum, or the reason why there is none."""

    at_most: float | None
    """The maximum; null: unbounded."""
    because: str
    """What bounds it and what does not count, or why it is unbounded."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the settings of an agent, its template and its organization guarantee while it is not paused."""

    wakes_per_day: Bound
    """How many runs start in a day."""
    cost_usd_per_day: Bound
    """What the agent spends in a UTC day, in US dollars."""
    hold_seconds: Bound
    """How long the settings hold what is high before it starts a run."""
    next_look_seconds: Bound
    """How long after the start of a run the next one starts at the latest, even if nothing comes."""


def bounds_of(facts: AgentFacts, policy: Policy) -> Bounds:
    """Return the bounds of an agent with these facts."""
    return Bounds(_wakes(facts), _cost(facts), hold := _hold(facts, policy), _next_look(facts, hold))


def raised(before: Bounds, after: Bounds) -> str:
    """Name the bounds that are higher than before, with their values."""
    pairs = ((each.name, getattr(before, each.name), getattr(after, each.name)) for each in fields(Bounds))
    return ", ".join(
        f"{name}={'unbounded' if new.at_most is None else f'{new.at_most:g}'}"
        for name, old, new in pairs
        if old.at_most is not None and (new.at_most is None or new.at_most > old.at_most)
    )


def _wakes(facts: AgentFacts) -> Bound:
    per_hour, per_day = facts.limits.max_wakes_per_hour, facts.limits.max_wakes_per_day
    numbers = [number for number in (per_day, per_hour and 25 * per_hour) if number]
    if not numbers:
        return Bound(None, "Unbounded, because neither max_wakes_per_hour nor max_wakes_per_day is set.")
    return Bound(min(numbers), "Its limits on wakes; run requests and urgent notifications start more runs.")


def _cost(facts: AgentFacts) -> Bound:
    if not facts.budgets:
        return Bound(None, "Unbounded, because no max_cost_usd_per_day is set.")
    if all(budget.allows_unpriced for budget in facts.budgets):
        return Bound(None, "Unbounded, because calls of models without a known price are allowed.")
    cap_usd = min(budget.cap_usd for budget in facts.budgets if not budget.allows_unpriced)
    return Bound(float(cap_usd), "Its lowest cap; the call that reaches it is completed and comes on top.")


def _hold(facts: AgentFacts, policy: Policy) -> Bound:
    if any(budget.of_organization for budget in facts.budgets):
        return Bound(None, "Unbounded, because other agents may spend the budget of the organization.")
    if any(budget.cap_usd == 0 for budget in facts.budgets):
        return Bound(None, "Unbounded, because its cap of 0 allows no run.")
    limits, window, quiet_minutes = facts.limits, window_of(facts), longest_quiet_minutes(facts.limits)
    seconds = max_hold_seconds(window, policy.debounce_cap_seconds) if window else 0
    seconds += DAY_SECONDS if facts.budgets else 0
    if limits.max_wakes_per_hour or limits.max_wakes_per_day:
        seconds += DAY_SECONDS if limits.max_wakes_per_day else HOUR_SECONDS
    seconds += quiet_minutes * 60 + HOUR_SECONDS if quiet_minutes else 0  # a clock change may lengthen them
    return Bound(
        seconds, "Its debounce window, budget, limits on wakes and quiet hours, one after the other."
    )


def _next_look(facts: AgentFacts, hold: Bound) -> Bound:
    if facts.max_sleep_hours is None:
        return Bound(None, "Unbounded, because max_sleep_hours is not set.")
    if hold.at_most is None:
        return hold
    because = "Its longest sleep, then its longest hold; long runs and the waits after failures come on top."
    return Bound(facts.max_sleep_hours * HOUR_SECONDS + hold.at_most, because)
