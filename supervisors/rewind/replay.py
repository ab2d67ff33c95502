"""The replay of a recording by the rules that start agents, in virtual time, with other settings. Pure.

A simulated run takes the place of a recorded one: it lasts as long, ends in the same way, sleeps as long and
clears what that one cleared. A first replay lets happen what was recorded, which shows how long each start
that was due had to wait; a second one follows the rules, and waits as long.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from uuid import UUID

from storage.agent_facts import MOMENT, ActiveTimes, AgentFacts, Budget
from storage.events.model import Event, EventType
from storage.model import AgentStatus, Outcome, Priority, Source
from storage.notifications.changes import activation
from storage.notifications.schedules import Schedule
from supervisors.engine.effects import after_status, is_about_to_start
from supervisors.policy import transitions
from supervisors.policy.decisions import Decision, Policy, WakeReason, active_count, decide, renewed_at
from supervisors.policy.explanations import (
    WHY_STOPPING_BEFORE_NEXT,
    WHY_STOPPING_FOR_AGENT_PAUSE,
    WHY_STOPPING_FOR_PAUSE,
)
from supervisors.policy.limits import filled
from supervisors.policy.phases import Phase
from supervisors.rewind.recording import Arrival, Recording, moment_of

NO_STOP = frozenset({WHY_STOPPING_FOR_AGENT_PAUSE, WHY_STOPPING_FOR_PAUSE, WHY_STOPPING_BEFORE_NEXT})
UNKNOWN_RUN = timedelta(minutes=1)  # the length of a run if none was recorded
REACTION = timedelta(seconds=1)  # within which the service starts what is due, if it has room
LAST_MOMENT = datetime.max.replace(tzinfo=UTC)
MAY_COUNT = frozenset({Outcome.INTERRUPTED, Outcome.BUDGET})  # as failures

Period = tuple[datetime, datetime]
Wait = tuple[Source, datetime, datetime | None]  # active, and cleared


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings of a replay: those in `facts`, and a priority for all that comes from some sources.

    `schedules`: those that notify at other moments. `is_never_paused`: the pauses of the agent itself are
    left out.
    """

    facts: AgentFacts
    policy: Policy
    priorities: Mapping[Source, Priority] = field(default_factory=dict)
    schedules: Sequence[tuple[Schedule, Sequence[datetime]]] = ()
    is_never_paused: bool = False


@dataclass(slots=True)
class Wake:
    """A simulated run. `number`: that of the recorded run for which it stands; None if there was none."""

    at: datetime
    reason: str
    number: int | None
    is_recorded: bool  # it started when that one did
    ends_at: datetime | None = None  # None until it has ended, if that one ends it
    cost_usd: Decimal = Decimal(0)


class Replay:
    """One replay. `steps` carries it out; afterwards the public attributes tell what came of it.

    `known_delays`: when a start was due and had to wait, from the first replay of the recording. Without
    them this is that one: the recorded runs start, and no others. The time before the period is always
    replayed so.
    """

    def __init__(
        self,
        recording: Recording,
        rules: Rules,
        known_delays: Sequence[Period] | None = None,
        watched: UUID | None = None,
    ) -> None:
        self.wakes: list[Wake] = []
        self.waits: list[Wait] = []
        self.delays: list[Period] = []
        self.reproduced = 0  # recorded runs that started when and why the rules say
        self.watched: Arrival | None = None
        self.woken_at: datetime | None = None  # when a run began with the watched notification active
        self.was_paused = False
        self._watched_id = watched
        self._recording, self._rules = recording, rules
        self._is_first, self._known_delays = known_delays is None, known_delays or ()
        self._follows_rules = False
        self._phases = [(event.at, event.phase) for event in recording.events if event.phase is not None]
        self._runs = recording.runs
        self._next_run = recording.first_number
        self._now = recording.replayed_from
        self._state = recording.initial
        self._paused = recording.organization_paused
        self._queue: dict[UUID, Arrival] = {}
        self._high: dict[UUID, Arrival] = {}  # those of high priority
        self._to_clear: dict[UUID, Arrival] = {}  # those that a recorded run cleared
        self._active = ActiveTimes()
        before = recording.runs[: self._next_run]
        self.starts = [run.started_at for run in before]  # of all runs, also those before the period
        self._spent: dict[date, Decimal] = {}
        for run in before:
            self._spend(run.cost_usd, run.ended_at or self._now)
        self._shared_cap_until = self._now  # the budget of the organization is spent until then
        self._run: Wake | None = None
        self._started = 0  # runs
        self._clearings: list[tuple[datetime, Arrival]] = []  # of the run, the latest first
        self._pending_at_start = 0
        self._decision: Decision | None = None  # while it rests
        self._due_since: datetime | None = None
        self._reasons: set[str] = set()  # of the start that is due, while it waits
        self._last_active_at: datetime | None = None

    def steps(self) -> Iterator[None]:
        """Go through the period; yield after each step, so that others get their turn."""
        events, start, end = self._recording.events, self._recording.start, self._recording.end
        place = bisect_left(events, start, key=lambda event: event.at)
        yield from self._go_through(events[:place], start)
        self._begin_period()
        yield from self._go_through(events[place:], end)
        for one in self._high.values():
            if one.activated_at is not None and one.is_active(end):
                self.waits.append((one.source, one.activated_at, None))
        self._stop_waiting(end, LAST_MOMENT)

    def _begin_period(self) -> None:
        """Let the rules of the replay hold from now on, also for what is due already."""
        self._now, self._follows_rules = max(self._now, self._recording.start), not self._is_first
        self.wakes, self.waits, self.reproduced = [], [], 0
        self.was_paused = self._state.paused
        if self._rules.is_never_paused:
            self._state = transitions.unpaused(self._state)
        if self._run is None:
            self._due_since = None
            self._rest()

    def _go_through(self, events: Sequence[Event], until: datetime) -> Iterator[None]:
        for event in events:
            yield from self._go_on(event.at)
            now = max(self._now, event.at)
            self._now = event.at  # earlier than the beginning for what waited then
            self._take(event)
            self._now = now
            if self._run is None:
                self._rest()
            yield
        yield from self._go_on(until)

    def _go_on(self, until: datetime) -> Iterator[None]:
        """Let happen what no event brings."""
        while self._now < until and (own := self._next_of_its_own()) is not None and own < until:
            self._now = max(self._now, own)
            self._act()
            yield

    def spent_on(self, moment: datetime) -> Decimal:
        """Return what was spent on the day of a moment, by UTC."""
        return self._spent.get(moment.astimezone(UTC).date(), Decimal(0))

    def _spend(self, cost_usd: Decimal, at: datetime) -> None:
        self._spent[at.astimezone(UTC).date()] = self.spent_on(at) + cost_usd

    # Its own moments

    def _next_of_its_own(self) -> datetime | None:
        """Return when something comes that no event brings: an end, a clearing, a wake, another decision."""
        if self._run is not None:
            clears_at = self._clearings[-1][0] if self._clearings else None
            return min(filter(None, (clears_at, self._run.ends_at)), default=None)
        if self._decision is None:
            self._rest()
        if self._due_since is not None:
            return self._delayed_until(self._due_since)
        return self._decision.next_at if self._decision else None

    def _act(self) -> None:
        if self._run is None:
            self._rest(has_waited=True)
            return
        while self._clearings and self._clearings[-1][0] <= self._now:
            self._clear(self._clearings.pop()[1])
        if self._run.ends_at is not None and self._run.ends_at <= self._now:
            self._end()

    def _rest(self, *, has_waited: bool = False) -> None:
        """Decide, and start what is due, unless it has to wait as a recorded start had."""
        facts, now = self._facts(), self._now
        decision = decide(facts, now, self._rules.policy)
        wake = decision.due_wake(now)
        if wake is None and self._state.queued_at is not None:
            self._state = replace(self._state, queued_at=None)
            facts = replace(facts, state=self._state)
            decision = decide(facts, now, self._rules.policy)
        self._decision = decision
        if wake is None:
            self._stop_waiting(now, now)
            self._state = transitions.with_next_due(facts, decision, now)
            return
        self._reasons.add(wake.reason)
        was_due, until = self._due_since is not None, self._delayed_until(self._due_since or now)
        if until is None or (was_due and has_waited and until <= now):
            self._start(facts, wake.reason, number=None)
        elif not was_due:
            self._due_since, self._state = now, transitions.queued(self._state, now)

    def _delayed_until(self, since: datetime) -> datetime | None:
        """Return until when a start that is due since a moment has to wait; None if it does not."""
        if not self._follows_rules:
            return LAST_MOMENT
        place = bisect_right(self._known_delays, (since, LAST_MOMENT)) - 1
        until = self._known_delays[place][1] if place >= 0 else since - MOMENT
        return until if since <= until else None

    def _stop_waiting(self, now: datetime, until: datetime) -> None:
        """Keep a delay that the log explains. A longer one shows other settings, or an outage."""
        if self._due_since is not None and self._is_explained(self._due_since, now):
            self.delays.append((self._due_since, until))
        self._due_since, self._reasons = None, set()

    def _is_explained(self, since: datetime, until: datetime) -> bool:
        """Return whether a start that was due may have waited so long: for a moment, or in the queue."""
        first = max(0, bisect_right(self._phases, (since, "~")) - 1)
        last = bisect_left(self._phases, (until, ""))
        was_queued = any(phase == Phase.QUEUED for _, phase in self._phases[first:last])
        return until - since <= REACTION or was_queued

    # Runs

    def _start(self, facts: AgentFacts, reason: str, number: int | None) -> None:
        """Start a run: the recorded one, or else one that stands for others."""
        now, due = self._now, self._due(number) if self._follows_rules else []
        self._pending_at_start = active_count(facts)
        stands_for = number if number is not None else self._stands_for(due)
        run = None if stands_for is None else self._runs[stands_for]
        length = UNKNOWN_RUN if stands_for is None else self._length(stands_for)
        ends_at = now + length if number is None else None
        cost_usd = run.cost_usd if run else Decimal(0)
        self._state = transitions.started(facts, run.id if run else UUID(int=0), reason, now)
        self._stop_waiting(now, now)
        self._run, self._decision = Wake(now, reason, stands_for, number is not None, ends_at, cost_usd), None
        self.wakes.append(self._run)
        self._started += 1
        self.starts.append(now)
        if self._watched_id in self._high and self._high[self._watched_id].is_active(now):
            self.woken_at = self.woken_at or now
        if self._follows_rules and (run is None or run.outcome is Outcome.SLEPT):
            # No agent may sleep while something of high priority is uncleared.
            ids = {one.id for one in due}
            left = (one for one in self._high.values() if number is None or one.cleared_by != number)
            due += [one for one in left if one.is_active(now) and one.id not in ids]
        offsets = [(one.offset if one.cleared_by is not None else length, one) for one in due]
        clearings = [(now + min(offset, length), one) for offset, one in offsets]
        self._clearings = sorted(clearings, key=lambda each: each[0], reverse=True)

    def _due(self, number: int | None) -> list[Arrival]:
        """Return what a run that starts now clears, as it has been in the queue of enough runs."""
        started = self._started + 1
        return [
            one
            for one in self._to_clear.values()
            if (one.activated_at is None or one.is_active(self._now))
            and started - one.runs_before >= one.needed_runs
            and (number is None or one.cleared_by != number)
        ]

    def _stands_for(self, due: list[Arrival]) -> int | None:
        """Return the longest run that cleared any of this, else the one that saw the latest, or the next."""
        cleared_by = [one.cleared_by for one in due if one.cleared_by is not None]
        if cleared_by or not self._runs:
            return max(cleared_by, key=self._length, default=None)
        number, active = self._next_run, [one for one in self._high.values() if one.is_active(self._now)]
        if active:
            latest = max(active, key=lambda one: one.activated_at or self._now)
            number = latest.first_run + self._started - latest.runs_before
        return min(number, len(self._runs) - 1)

    def _length(self, number: int) -> timedelta:
        run = self._runs[number]
        return (run.ended_at or self._recording.end) - run.started_at

    def _end(self, outcome: Outcome | None = None) -> None:
        """End the run as the one that it stands for, or else with this outcome."""
        wake, self._run, now = self._run, None, self._now
        if wake is None:
            return
        for _, one in self._clearings:
            self._clear(one)
        self._clearings, wake.ends_at = [], now
        recorded = self._runs[wake.number] if wake.number is not None else None
        until = None if wake.number is None else self._recording.sleeps[wake.number + 1]
        if until and recorded and recorded.ended_at and not wake.is_recorded:
            until = now + (until - recorded.ended_at)
        outcome = outcome or (recorded and recorded.outcome) or Outcome.SLEPT
        facts = self._facts()
        if outcome is Outcome.SLEPT:
            self._state = transitions.slept(facts, until, now)
        else:
            counts = outcome not in MAY_COUNT or (recorded and recorded.id) in self._recording.failed
            after = transitions.ended(facts, outcome, "", now, counts=counts, jitter=0)
            is_cut = after.stopped_at is not None or after.status is AgentStatus.ARCHIVED
            cap = None if is_cut else after.max_sleep_until
            self._state = replace(after, sleep_until=transitions.clamp(until, cap))
        self._spend(wake.cost_usd, now)
        self._rest()

    # Events

    def _take(self, event: Event) -> None:
        """Let an event happen."""
        if self._due_since is not None:
            self._rest()  # the recorded start may have been decided at this moment, before the event
        match event.type:
            case EventType.RUN_STARTED:
                self._take_start(event)
            case EventType.RUN_ENDED:
                wake, number = self._run, self._recording.numbers.get(event.run_id)
                if wake is not None and wake.is_recorded and wake.number == number:
                    self._end()
            case EventType.ORGANIZATION_PAUSED | EventType.ORGANIZATION_UNPAUSED:
                self._paused = event.type is EventType.ORGANIZATION_PAUSED
            case EventType.BUDGET_REACHED if event.data.get("of") == "organization":
                self._shared_cap_until = renewed_at(self._now)
            case _ if event.resource_id is not None:
                self._take_notification(event, event.resource_id)
            case _ if event.phase is not None:
                self._take_change(event)
        wake, facts = self._run, self._state
        is_to_stop = self._paused or facts.paused or facts.stopped_at or facts.status is AgentStatus.ARCHIVED
        if wake is not None and not wake.is_recorded and is_to_stop:  # a recorded one ends when it did
            self._end(Outcome.STOPPED)

    def _take_start(self, event: Event) -> None:
        number = self._recording.numbers.get(event.run_id)
        if number is None:
            return
        self._next_run = number + 1
        if self._run is not None:
            return
        facts, now = self._facts(), self._now
        recorded = self._runs[number].wake_reason
        if recorded == WakeReason.RUN_REQUESTED and facts.state.status is not AgentStatus.ARCHIVED:
            requested = after_status(facts, AgentStatus.RUNNING, now, run_is_stopping=False)
            if requested is not None:
                facts = replace(facts, state=requested)
                self._reasons.add(WakeReason.RUN_REQUESTED)
        wake = decide(facts, now, self._rules.policy).due_wake(now)
        reasons = {*self._reasons, wake.reason} if wake is not None else set()  # since it became due
        if not self._follows_rules:
            is_explained = self._is_explained(self._due_since or now, now)
            self.reproduced += recorded in reasons and is_explained
            self._start(facts, recorded, number)
        elif wake is not None:
            self._start(facts, recorded if recorded in reasons else wake.reason, number)

    def _take_change(self, event: Event) -> None:
        """Take over what people have asked for, which the log tells by the change of the phase."""
        facts, now, why = self._facts(), self._now, event.data.get("why")
        match event.type:
            case EventType.AGENT_ARCHIVED:
                after = transitions.archived(facts, now)
            case EventType.AGENT_RESTORED:
                after = transitions.restored(facts, now)
            case EventType.AGENT_UNPAUSED:
                after = transitions.unpaused(self._state)
            case type_ if type_ is EventType.AGENT_STOPPED or (
                event.phase == Phase.STOPPING and why not in NO_STOP
            ):
                if self._run is None and not is_about_to_start(facts, now, self._rules.policy):
                    return
                after = transitions.stopped(facts, now)
            case _ if event.phase == Phase.PAUSED or why == WHY_STOPPING_FOR_AGENT_PAUSE:
                self.was_paused = True
                after = self._state if self._rules.is_never_paused else transitions.paused(self._state)
            case _:
                return
        if after.stopped_at != self._state.stopped_at and self._run is None:
            until = self._recording.sleeps[self._next_run]
            after = replace(after, sleep_until=until if until and until > now else None)
        self._state = after

    def _take_notification(self, event: Event, id_: UUID) -> None:
        recorded, one = self._recording.arrivals.get((event.id, id_)), self._queue.get(id_)
        if recorded is not None:
            self._add(recorded, one, is_new=event.type is EventType.NOTIFICATION_CREATED)
        elif one is None:
            return
        elif event.type is EventType.NOTIFICATION_DELETED:
            self._remove(one)
        elif event.type is EventType.NOTIFICATION_CLEARED:
            if self._is_cleared_now(one):
                self._clear(one)
        elif event.type is EventType.NOTIFICATION_CHANGED:
            since, before = one.activated_at, one.scheduled_for
            self._deactivate(one)
            one.priority = Priority(event.data.get("priority", one.priority))
            if "scheduled_for" in event.data.get("fields", ()):
                one.scheduled_for = moment_of(event.data.get("scheduled_for"))
            self._activate(one, since if one.scheduled_for == before else None)

    def _add(self, recorded: Arrival, before: Arrival | None, *, is_new: bool) -> None:
        """Add a notification to the queue, unless it is there: then its clearing was left out."""
        one = replace(recorded, came_at=self._now, runs_before=self._started)
        if is_new and self._follows_rules:
            one.priority = self._rules.priorities.get(one.source, one.priority)
        if before is not None:
            self._remove(before)
        self._queue[one.id] = one
        if one.cleared_by is not None:
            self._to_clear[one.id] = one
        if one.id == self._watched_id:
            self.watched = one
        self._activate(one, before.activated_at if before is not None else None)

    def _activate(self, one: Arrival, since: datetime | None) -> None:
        """Make it active after all that the agent went through before, unless it is a reminder."""
        active_at = activation(one.priority, one.scheduled_for, self._now, since=since)
        is_new = active_at != since and self._now >= self._recording.replayed_from
        if active_at is not None and active_at != one.scheduled_for and is_new:
            active_at = self._last_active_at = self._state.activation_at(active_at, self._last_active_at)
        one.activated_at = active_at
        if active_at is not None:
            self._high[one.id] = one
            self._active.add(one.source, active_at, one.scheduled_for, urgent=one.urgent)

    def _deactivate(self, one: Arrival) -> None:
        if one.activated_at is not None:
            del self._high[one.id]
            self._active.remove(one.source, one.activated_at, one.scheduled_for, urgent=one.urgent)

    def _remove(self, one: Arrival) -> None:
        self._deactivate(one)
        self._to_clear.pop(one.id, None)
        del self._queue[one.id]

    def _is_cleared_now(self, one: Arrival) -> bool:
        """Return whether the recorded clearing happens here, too: not by a run that came earlier or later."""
        wake = self._run
        if not self._follows_rules or one.cleared_by is None:
            return True
        came_during_run = one.cleared_by < one.first_run
        is_by_this_run = wake is not None and wake.is_recorded and wake.number == one.cleared_by
        return is_by_this_run or (wake is not None and came_during_run)

    def _clear(self, one: Arrival) -> None:
        if self._queue.get(one.id) is not one:
            return
        self._remove(one)
        if one.activated_at is not None:
            self.waits.append((one.source, one.activated_at, self._now))

    # Facts

    def _facts(self) -> AgentFacts:
        settings, wake, state = self._rules.facts, self._run, self._state
        return replace(
            settings,
            state=state,
            organization_paused=self._paused,
            instance_paused_at=None,
            pending=self._active.grouped(state, self._now),
            pending_at_start=self._pending_at_start,
            budgets=tuple(replace(one, spent_usd=self._spent_of(one)) for one in settings.budgets),
            limits=filled(settings.limits, self.starts, self._now),
            interrupted_sleep_until=state.last_wake_interrupted_sleep_until if wake else None,
            wake_reason=wake.reason if wake else "",
        )

    def _spent_of(self, budget: Budget) -> Decimal:
        if not budget.of_organization:
            return self.spent_on(self._now)
        return budget.cap_usd if self._now < self._shared_cap_until else min(Decimal(0), budget.cap_usd - 1)
