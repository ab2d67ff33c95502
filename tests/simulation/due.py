"""When an agent must start, computed plainly from what is stored, without `supervisors.policy`."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from uuid import UUID
from zoneinfo import ZoneInfo

from hostsvc_testing.memory.tables import Tables
from storage.agent_facts import AgentState
from storage.model import Notification, Outcome, Source

CONVERSATIONAL = frozenset(
    {Source.EMAIL, Source.SMS, Source.MMS, Source.SMS_PROVIDER_A, Source.SMS_PROVIDER_B}
)
QUARANTINED_AFTER = 5
FAILURES = frozenset({Outcome.FAILED, Outcome.TIMED_OUT, Outcome.INTERRUPTED})
WITHOUT_ERROR = frozenset({Outcome.ENDED, Outcome.TURN_LIMIT})
SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
ENDS = ((0, 0), (0, 1), (9, 0), (9, 1))  # of days, and of the quiet hours that the workload draws

ArrivalOf = Callable[[Notification], datetime]  # when it became active, by the present wall clock


@dataclass(frozen=True, slots=True)
class Due:
    """The moment by which an agent must have started, the reason, and the invariant that demands it.

    `passes`: the limits on the agent's wakes do not delay it.
    """

    at: datetime
    why: str
    invariant: str
    passes: bool = False


def due_of(
    tables: Tables,
    state: AgentState,
    now: datetime,
    cap_seconds: int,
    arrival: ArrivalOf,
    starts: Sequence[datetime],
) -> Due | None:
    """Return the earliest reason to start this sleeping agent; None if there is none.

    `starts`: those of its runs.
    """
    all_due = _all_due(tables, state, now, cap_seconds, arrival)
    if is_over_budget(tables, state.agent_id, now):
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0) + 24 * 3600 * SECOND
        all_due = (replace(due, at=max(due.at, midnight)) for due in all_due)
    limited = (
        due if due.passes else replace(due, at=allowed_at(tables, state.agent_id, due.at, now, starts))
        for due in all_due
    )
    return min(limited, key=lambda due: due.at, default=None)


def allowed_at(
    tables: Tables, agent_id: UUID, due_at: datetime, now: datetime, starts: Sequence[datetime]
) -> datetime:
    """Return the first moment from `due_at` on at which the limits allow a wake, as far as is known `now`.

    If they do not allow it now, it lies ahead: the clock may have jumped over the moment.
    """
    if not may_wake(tables, agent_id, max(due_at, now), now, starts):
        due_at = max(due_at, now)
    ends = [due_at, *(at + HOUR for at in starts)]
    zone = ZoneInfo(tables.agents[agent_id].timezone)
    for days in range(9):
        day = due_at.astimezone(zone).date() + timedelta(days=days)
        ends += [datetime.combine(day, time(*at), zone).astimezone(UTC) for at in ENDS]
    return next(at for at in sorted(ends) if at >= due_at and may_wake(tables, agent_id, at, now, starts))


def may_wake(tables: Tables, agent_id: UUID, at: datetime, now: datetime, starts: Sequence[datetime]) -> bool:
    """Return whether the limits allow a wake that no person asks for.

    Starts more than a second ahead do not count, as the clock was set back since.
    """
    agent = tables.agents[agent_id]
    template = tables.templates.get(agent.template_id) if agent.template_id else None
    per_hour, per_day, quiet_hours = (
        getattr(template, name, None) if getattr(agent, name) is None else getattr(agent, name)
        for name in ("max_wakes_per_hour", "max_wakes_per_day", "quiet_hours")
    )
    zone = ZoneInfo(agent.timezone)
    local = at.astimezone(zone)
    counted = [started_at for started_at in starts if started_at <= now + SECOND]
    of_hour = sum(started_at > at - HOUR for started_at in counted)
    of_day = sum(started_at.astimezone(zone).date() >= local.date() for started_at in counted)
    if (per_hour and of_hour >= per_hour) or (per_day and of_day >= per_day):
        return False
    clock_time = local.strftime("%H:%M:%S")
    for period in filter(None, (quiet_hours or "").split(", ")):
        start, end = (f"{part}:00" for part in period.split(" ")[-1].split("-"))
        is_after, is_before = clock_time >= start, clock_time < end
        if (is_after and is_before) if start < end else (is_after or is_before):
            return False
    return True


def is_over_budget(tables: Tables, agent_id: UUID, now: datetime) -> bool:
    """Return whether the agent or its organization has spent its budget for today."""
    agent = tables.agents[agent_id]
    cap = agent.max_cost_usd_per_day
    if cap is None and agent.template_id is not None:
        cap = tables.templates[agent.template_id].max_cost_usd_per_day
    shared_cap = tables.organizations[agent.organization_id].max_cost_usd_per_day
    spent, spent_by_all = (
        tables.spending.get((owner_id, now.date()), 0) for owner_id in (agent_id, agent.organization_id)
    )
    return (cap is not None and spent >= cap) or (shared_cap is not None and spent_by_all >= shared_cap)


def _all_due(
    tables: Tables, state: AgentState, now: datetime, cap_seconds: int, arrival: ArrivalOf
) -> Iterator[Due]:
    if state.run_requested_at is not None:
        yield Due(state.run_requested_at, "a run request", "I2", passes=True)
    active = [one for one in tables.queue(state.agent_id) if _counts(one, state, now)]
    old = [one for one in active if _had_its_chance(one, state, now)]
    fresh = [one for one in active if one not in old]
    retry_at = _retry_at(tables, state, active, old, now)
    for due in _by_activation(fresh, window_of(tables, state), cap_seconds, state.queued_at, arrival):
        yield _not_in_quarantine(due, state, retry_at)
    if retry_at is not None:
        yield Due(retry_at, "a retry", "I2")
        return
    if old:
        yield Due(now, f"{old[0].title}, left over by the last run,", "I2")
    if state.sleep_until is not None:
        rested = state.last_started_at + SECOND if state.last_started_at else state.sleep_until
        yield Due(max(state.sleep_until, rested), "the end of its sleep", "I2")


def _by_activation(
    fresh: list[Notification],
    window: int,
    cap_seconds: int,
    queued_at: datetime | None,
    arrival: ArrivalOf,
) -> Iterator[Due]:
    held, is_urgent = [], False
    for one in fresh:
        assert one.activated_at is not None
        if one.scheduled_for == one.activated_at:
            yield Due(one.activated_at, f"the reminder {one.title}", "I6", one.urgent)
        elif one.source in CONVERSATIONAL and window:
            held.append(arrival(one))
            is_urgent = is_urgent or one.urgent
        else:
            yield Due(arrival(one), one.title, "I2", one.urgent)
    if held:
        quiet_at = max(held) + window * SECOND
        latest = min(held) + max(2 * window, min(10 * window, cap_seconds)) * SECOND
        was_over = queued_at is not None and min(held) + window * SECOND <= queued_at
        ends_at = min(quiet_at, latest, queued_at if queued_at and was_over else latest)
        yield Due(ends_at, "the end of its hold", "I5", is_urgent)


def _counts(one: Notification, state: AgentState, now: datetime) -> bool:
    """Return whether it is high, uncleared and not silenced by a stop, which silences no future reminder."""
    if one.activated_at is None:
        return False
    is_reminder = one.scheduled_for == one.activated_at
    if state.stopped_at is None or (is_reminder and one.activated_at > now):
        return True
    seen_until = None if is_reminder else state.seen_until
    return one.activated_at > max(state.stopped_at, seen_until or state.stopped_at)


def _had_its_chance(one: Notification, state: AgentState, now: datetime) -> bool:
    """Return whether the last run had it in its queue from the start, or created it."""
    assert one.activated_at is not None
    is_reminder = one.scheduled_for == one.activated_at
    if state.last_started_at is None or (is_reminder and one.activated_at > now):
        return False
    if one.activated_at <= state.last_started_at or (
        state.seen_until and one.activated_at <= state.seen_until and not is_reminder
    ):
        return True
    is_own = one.source is Source.AGENT and not is_reminder
    return is_own and state.last_ended_at is not None and one.activated_at <= state.last_ended_at


def _retry_at(
    tables: Tables, state: AgentState, active: list[Notification], old: list[Notification], now: datetime
) -> datetime | None:
    """Return when the agent is tried again; None if the cause of the retry is gone."""
    match state.retry_reason:
        case "retry_after_failure" | "restart_recovery":
            return state.retry_at
        case "uncleared_notifications":
            return state.retry_at if old else None
        case _:  # after an archived agent was restored
            is_due = any(one.activated_at and one.activated_at <= now for one in active)
            return state.retry_at if is_due else None


def backoff(retries: int) -> timedelta:
    """Return the wait after the `retries`-th failed attempt in a row without progress."""
    return timedelta(seconds=min(2.0 ** (retries - 1), 300))


def quarantine(failures: int) -> timedelta:
    """Return the wait after this many failures in a row, for a quarantined agent."""
    return timedelta(seconds=min(900 * 2.0 ** (failures - QUARANTINED_AFTER), 6 * 3600))


def failures_after(
    before: AgentState, after: AgentState, outcome: Outcome, *, made_progress: bool
) -> frozenset[int]:
    """Return how many failures in a row there may be after the end of a run.

    There are two possible numbers if something was cleared, maybe after the engine counted what is left.
    """
    one_more = before.failures + 1
    if outcome in FAILURES:
        return frozenset({one_more})
    if outcome not in WITHOUT_ERROR or after.retry_reason != "uncleared_notifications":
        return frozenset({0})
    return frozenset({0, one_more} if made_progress else {one_more})


def has_kept_failures(before: AgentState, after: AgentState) -> bool:
    """Return whether a start keeps what is counted, or forgets it because something was cleared since."""
    if after.retries not in {before.retries, 0}:
        return False
    has_failed = before.retry_reason in {"retry_after_failure", "restart_recovery"}
    may_forget = after.retries == 0 and not has_failed
    return after.failures == before.failures or (after.failures == 0 and may_forget)


def _not_in_quarantine(due: Due, state: AgentState, retry_at: datetime | None) -> Due:
    """Delay the activation of a quarantined agent: one may start it every minute."""
    if state.failures < QUARANTINED_AFTER or retry_at is None or state.last_started_at is None:
        return due
    return replace(due, at=max(due.at, state.last_started_at + 60 * SECOND))


def window_of(tables: Tables, state: AgentState) -> int:
    """Return the debounce window of the agent in seconds; 0 if it has none."""
    agent = tables.agents[state.agent_id]
    if agent.debounce_window_seconds is not None:
        return agent.debounce_window_seconds
    return tables.templates[agent.template_id].debounce_window_seconds if agent.template_id else 0
