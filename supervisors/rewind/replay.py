"""The replay of a recording by the rules that start agents, in virtual time, with other settings. Pure.

A simulated run takes the place of a recorded one: it lasts as long, ends in the same way, sleeps as long and
clears what that one cleared. A replay with the settings of the recording starts each run when it was
recorded, which shows how long each start that was due had to wait; other replays wait as long.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import accumulate
from uuid import UUID

from storage.agent_facts import NO_LIMITS, ActivationPeriod, AgentFacts, AgentState, PendingGroup, WakeLimits
from storage.events.model import Event, EventType
from storage.events.rewind import RecordedRun
from storage.model import AgentStatus, Outcome, Priority, Source
from storage.notifications.changes import activation
from supervisors.engine.effects import answer_without_run, is_about_to_start
from supervisors.policy import transitions
from supervisors.policy.decisions import Decision, Policy, WakeReason, active_count, decide, renewed_at
from supervisors.policy.explanations import (
    WHY_STOPPING_BEFORE_NEXT,
    WHY_STOPPING_FOR_AGENT_PAUSE,
    WHY_STOPPING_FOR_PAUSE,
)
from supervisors.policy.limits import DAY, HOUR
from supervisors.policy.phases import Phase
from supervisors.rewind.recording import ALREADY_HERE, Life, Recording, lives_of, moment_of, sleeps_of

MOMENT = timedelta(microseconds=1)  # the shortest time between two activations
NO_STOP = frozenset({WHY_STOPPING_FOR_AGENT_PAUSE, WHY_STOPPING_FOR_PAUSE, WHY_STOPPING_BEFORE_NEXT})
UNKNOWN_RUN = timedelta(minutes=1)  # the length of a run if none was recorded
TOGETHER = timedelta(seconds=1)  # ids of events within it may have another order than their times
REACTION = timedelta(seconds=1)  # within which the service starts what is due, if it has room
LAST_MOMENT = datetime.max.replace(tzinfo=UTC)
MAY_COUNT = frozenset({Outcome.INTERRUPTED, Outcome.BUDGET})  # as failures

Period = tuple[datetime, datetime]
GroupKey = tuple[Source, bool, ActivationPeriod, bool]


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings of a replay: those in `facts`, and a priority for all that comes from some sources.

    `is_never_paused`: the pauses of the agent itself are left out.
    """

    facts: AgentFacts
    policy: Policy
    priorities: Mapping[Source, Priority] = field(default_factory=dict)
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


@dataclass(slots=True)
class Arrival:
    """A notification in the virtual queue. `runs_before`: how many runs had started when it came."""

    id: UUID
    life: Life
    priority: Priority
    scheduled_for: datetime | None
    runs_before: int
    came_at: datetime
    active_at: datetime | None = None
    cleared_at: datetime | None = None

    @property
    def is_reminder(self) -> bool:
        return self.scheduled_for is not None and self.scheduled_for == self.active_at


class Replay:
    """One replay. `steps` carries it out; afterwards `wakes` and `waits` tell what came of it.

    `delays`: when a start was due and had to wait, from the replay with the settings of the recording. That
    one itself has None: it waits for the next recorded start.
    """

    def __init__(
        self,
        recording: Recording,
        rules: Rules,
        delays: Sequence[Period] | None = None,
        watched: UUID | None = None,
    ) -> None:
        self.woken_at: datetime | None = None  # when a run began with the watched notification active
        self.watched_arrival: Arrival | None = None
        self.was_paused = False
        self._watched = watched
        self.delays: list[Period] = []
        self.unexplained: list[Period] = []  # not by the log: other settings, or an outage
        self._phases = [(event.at, event.phase) for event in recording.events if event.phase is not None]
        self.wakes: list[Wake] = []
        self.waits: list[tuple[Source, datetime, datetime | None]] = []  # active, and cleared
        self.decision: Decision | None = None  # while it rests
        self._recording = recording
        self._rules = rules
        self._known_delays = delays
        self._lives = lives_of(recording)
        self._sleeps = sleeps_of(recording)
        self._runs = recording.runs
        self._next_run = recording.first_number()
        self._state: AgentState = recording.initial
        self._paused = recording.organization_paused
        self._queue: dict[UUID, Arrival] = {}
        self._starts = [run.started_at for run in recording.runs if run.started_at < recording.start]
        self._spent: dict[date, Decimal] = {}
        self._shared_cap_until = recording.start  # the budget of the organization is spent until then
        self._run: Wake | None = None
        self._clearings: list[tuple[datetime, Arrival]] = []  # of the run, the latest first
        self._pending_at_start = 0
        self._due_since: datetime | None = None
        self._waits_until: datetime | None = None
        self._reasons: set[str] = set()  # of the start that is due, while it waits
        self._last_active_at: datetime | None = None
        self._now = recording.start
        self._last_by_time = -1
        self._begin(recording)

    def _begin(self, recording: Recording) -> None:
        self._epoch: object = None  # while this is the same, what was counted of the queue stays so
        self._counted: dict[GroupKey, tuple[int, datetime, datetime]] = {}
        self._uncounted: list[Arrival] = []
        if self._rules.is_never_paused:
            self._state = transitions.unpaused(self._state)
        for number, run in enumerate(recording.runs):
            if run.started_at < recording.start and run.id != self._state.run_id and run.ended_at is not None:
                self._spend(run.cost_usd, run.ended_at)
            elif run.started_at < recording.start:
                self._run = Wake(run.started_at, run.wake_reason, number, True)
        if self._run is None:
            self._state = replace(self._state, sleep_until=self._sleeps[self._next_run])

    def steps(self) -> Iterator[None]:
        """Go through the period; yield after each step, so that others get their turn."""
        events = self._recording.events
        times = list(accumulate((event.at for event in events), max))
        now = self._recording.start
        for event, at in zip(events, times, strict=True):
            while (own := self._next_of_its_own(now)) is not None and own < at:
                now = max(now, own)
                self._act(now)
                yield
            now = max(now, at)
            clock_was_set = event.id != ALREADY_HERE and now - event.at > TOGETHER
            self._take(event, now if clock_was_set else event.at)
            if self._run is None:
                self._rest(now)
            yield
        while (own := self._next_of_its_own(now)) is not None and own < self._recording.end:
            now = max(now, own)
            self._act(now)
            yield
        self.waits += [_wait(one) for one in self._queue.values() if one.active_at is not None]
        if self._due_since is not None and self._is_explained(self._due_since, self._recording.end):
            self.delays.append((self._due_since, LAST_MOMENT))

    def spent_on(self, moment: datetime) -> Decimal:
        """Return what was spent on the day of a moment, by UTC."""
        return self._spent.get(_day(moment), Decimal(0))

    def _spend(self, cost_usd: Decimal, at: datetime) -> None:
        self._spent[_day(at)] = self.spent_on(at) + cost_usd

    # Its own moments

    def _next_of_its_own(self, now: datetime) -> datetime | None:
        """Return when something comes that no event brings: an end, a clearing, a wake, another decision."""
        if self._run is not None:
            clears_at = self._clearings[-1][0] if self._clearings else None
            return min(filter(None, (clears_at, self._run.ends_at)), default=None)
        if self.decision is None:
            self._rest(now)
        if self._due_since is not None:
            return self._waits_until
        return self.decision.next_at if self.decision else None

    def _act(self, now: datetime) -> None:
        if self._run is None:
            self._rest(now, is_over=True)
            return
        while self._clearings and self._clearings[-1][0] <= now:
            self._clear(self._clearings.pop()[1], now)
        if self._run.ends_at is not None and self._run.ends_at <= now:
            self._end(now)

    def _rest(self, now: datetime, *, is_over: bool = False) -> None:
        """Decide, and start what is due, unless it has to wait as a recorded start had.

        `is_over`: it has waited.
        """
        facts = self._facts_at(now)
        decision = decide(facts, now, self._rules.policy)
        wake = decision.due_wake(now)
        if wake is None:
            if self._state.queued_at is not None:
                self._state = replace(self._state, queued_at=None)
                facts = replace(facts, state=self._state)
                decision = decide(facts, now, self._rules.policy)
            self._stop_waiting(now)
            self._state = transitions.with_next_due(facts, decision, now)
            self.decision = decision
            return
        self.decision = decision
        self._reasons.add(wake.reason)
        if self._due_since is None:
            self._waits_until = self._delayed_until(now)
        if self._due_since is None and self._waits_until is None:
            self._start(facts, wake.reason, now, number=None)
        elif self._due_since is None:
            self._due_since, self._state = now, transitions.queued(self._state, now)
        elif self._waits_until is not None and self._waits_until <= now and is_over:
            self._start(facts, wake.reason, now, number=None)

    def _delayed_until(self, now: datetime) -> datetime | None:
        """Return until when a start that is due now has to wait; None if it does not."""
        if self._known_delays is None:
            return LAST_MOMENT
        place = bisect_right(self._known_delays, (now, LAST_MOMENT)) - 1
        until = self._known_delays[place][1] if place >= 0 else now - MOMENT
        return until if now <= until else None

    def _stop_waiting(self, now: datetime) -> None:
        if self._due_since is not None and self._is_explained(self._due_since, now):
            self.delays.append((self._due_since, now))
        elif self._due_since is not None:
            self.unexplained.append((self._due_since, now))
        self._due_since, self._reasons = None, set()

    def _is_explained(self, since: datetime, until: datetime) -> bool:
        """Return whether a start that was due may have waited so long: for a moment, or in the queue."""
        first = max(0, bisect_right(self._phases, (since, "~")) - 1)
        last = bisect_left(self._phases, (until, ""))
        was_queued = any(phase == Phase.QUEUED for _, phase in self._phases[first:last])
        return until - since <= REACTION or was_queued

    # Runs

    def _start(self, facts: AgentFacts, reason: str, now: datetime, number: int | None) -> None:
        """Start a run: the recorded one, or else one that stands for others."""
        self._pending_at_start = active_count(facts)
        due = self._due(number)
        stands_for = number if number is not None else self._stands_for(due, now)
        run = self._runs[stands_for] if stands_for is not None else None
        wake = Wake(now, reason, stands_for, number is not None)
        length = UNKNOWN_RUN if stands_for is None else self._length(stands_for)
        if number is None:
            wake.ends_at = now + length
        wake.cost_usd = run.cost_usd if run else Decimal(0)
        run_id = run.id if run else UUID(int=0)
        self._state = transitions.started(facts, run_id, reason, now)
        self._stop_waiting(now)
        self._run, self.decision = wake, None
        self.wakes.append(wake)
        watched = self._queue.get(self._watched) if self._watched else None
        if watched is not None and watched.active_at is not None and not self._is_ahead(watched):
            self.woken_at = self.woken_at or now
        self._starts.append(now)
        offsets = [(one.life.offset if one.life.cleared_by is not None else length, one) for one in due]
        clearings = [(now + min(offset, length), one) for offset, one in offsets]
        self._clearings = sorted(clearings, key=lambda each: each[0], reverse=True)

    def _due(self, number: int | None) -> list[Arrival]:
        """Return what a run that starts now clears, as it has been in the queue of enough runs."""
        started = len(self.wakes) + 1
        return [
            one
            for one in self._queue.values()
            if (one.active_at is None or not self._is_ahead(one))
            and started - one.runs_before >= one.life.needed_runs
            and (number is None or one.life.cleared_by != number)
            and (one.life.cleared_by is not None or self._is_left_open(one))
        ]

    def _is_ahead(self, one: Arrival) -> bool:
        return one.is_reminder and one.active_at is not None and one.active_at > self._now

    def _is_left_open(self, one: Arrival) -> bool:
        """Return whether no recorded run was woken by it, so that nothing shows that it is left uncleared."""
        life = one.life
        is_new_to_them = life.priority is Priority.LOW and one.priority is Priority.HIGH
        return (
            life.cleared_at is None
            and (is_new_to_them or not life.is_seen)
            and self._known_delays is not None
        )

    def _stands_for(self, due: list[Arrival], now: datetime) -> int | None:
        """Return the longest run that cleared any of this, else the one that saw the latest, or the next."""
        cleared_by = [one.life.cleared_by for one in due if one.life.cleared_by is not None]
        if cleared_by:
            return max(cleared_by, key=self._length)
        if not self._runs:
            return None
        active = [one for one in self._queue.values() if one.active_at is not None and one.active_at <= now]
        latest = max(active, key=lambda one: one.active_at or now, default=None)
        if latest is not None and latest.life.is_seen:
            number = latest.life.first_run + len(self.wakes) - latest.runs_before
        else:
            number = self._last_by_time = max(self._next_run, self._last_by_time + 1)
        return min(number, len(self._runs) - 1)

    def _length(self, number: int) -> timedelta:
        run = self._runs[number]
        return (run.ended_at or self._recording.end) - run.started_at

    def _end(self, now: datetime, outcome: Outcome | None = None) -> None:
        """End the run as the one that it stands for, or else with this outcome."""
        wake, self._run = self._run, None
        if wake is None:
            return
        for _, one in self._clearings:
            self._clear(one, now)
        self._clearings, wake.ends_at = [], now
        recorded = self._runs[wake.number] if wake.number is not None else None
        until = self._sleep_of(wake, recorded, now)
        outcome = outcome or (recorded and recorded.outcome) or Outcome.SLEPT
        facts = self._facts_at(now)
        if outcome is Outcome.SLEPT:
            after = transitions.slept(facts, until, now)
        else:
            counts = outcome not in MAY_COUNT or (
                recorded is not None and recorded.id in self._recording.failed
            )
            after = transitions.ended(facts, outcome, "", now, counts=counts, jitter=0)
            is_cut = after.stopped_at is not None or after.status is AgentStatus.ARCHIVED
            cap = None if is_cut else after.max_sleep_until
            after = replace(after, sleep_until=transitions.clamp(until, cap))
        self._state = after
        self._spend(wake.cost_usd, now)
        self._rest(now)

    def _sleep_of(self, wake: Wake, recorded: RecordedRun | None, now: datetime) -> datetime | None:
        """Return until when the agent sleeps after its run: as long as after the recorded one."""
        until = None if wake.number is None else self._sleeps[wake.number + 1]
        if until is None or wake.is_recorded or recorded is None or recorded.ended_at is None:
            return until
        return now + (until - recorded.ended_at)

    # Events

    def _take(self, event: Event, now: datetime) -> None:
        """Let an event happen."""
        self._now = now
        match event.type:
            case EventType.RUN_STARTED:
                self._take_start(event, now)
            case EventType.RUN_ENDED:
                wake = self._run
                if wake is not None and wake.is_recorded and wake.number == self._recording.number_of(event):
                    self._end(now)
            case EventType.ORGANIZATION_PAUSED | EventType.ORGANIZATION_UNPAUSED:
                self._paused = event.type is EventType.ORGANIZATION_PAUSED
            case EventType.BUDGET_REACHED if event.data.get("of") == "organization":
                self._shared_cap_until = renewed_at(now)
            case _ if event.resource_id is not None:
                self._take_notification(event, event.resource_id, now)
            case _ if event.phase is not None:
                self._take_change(event, now)
        self._cut_short(now)

    def _cut_short(self, now: datetime) -> None:
        """End a run of its own that is to stop. A recorded one ends when it did."""
        wake, facts = self._run, self._state
        is_to_stop = self._paused or facts.paused or facts.stopped_at or facts.status is AgentStatus.ARCHIVED
        if wake is not None and not wake.is_recorded and is_to_stop:
            self._end(now, Outcome.STOPPED)

    def _take_start(self, event: Event, now: datetime) -> None:
        number = self._recording.number_of(event)
        if number is None:
            return
        self._next_run = number + 1
        if self._run is not None:
            return
        facts = self._facts_at(now)
        if self._runs[number].wake_reason == WakeReason.RUN_REQUESTED and (
            facts.state.status is not AgentStatus.ARCHIVED
            and answer_without_run(facts, now, run_is_stopping=False) is None
        ):
            facts = replace(facts, state=transitions.run_requested(facts.state, now))
            self._reasons.add(WakeReason.RUN_REQUESTED)
        wake = decide(facts, now, self._rules.policy).due_wake(now)
        recorded = self._runs[number].wake_reason
        if wake is not None:
            # It was decided at a moment since it became due.
            self._start(facts, recorded if recorded in self._reasons else wake.reason, now, number)
        elif self._was_due_lately(now):
            self._start(facts, recorded, now, number)

    def _was_due_lately(self, now: datetime) -> bool:
        """Return whether a start was due until a moment ago. What ended that may have come too late."""
        ended_at = self.delays[-1][1] if self.delays else None
        has_started = bool(self.wakes) and self.wakes[-1].at == ended_at
        return ended_at is not None and now - ended_at < TOGETHER and not has_started

    def _take_change(self, event: Event, now: datetime) -> None:
        """Take over what people have asked for, which the log tells by the change of the phase."""
        facts = self._facts_at(now)
        match event.type:
            case EventType.AGENT_ARCHIVED:
                after = transitions.archived(facts, now)
            case EventType.AGENT_RESTORED:
                after = transitions.restored(facts, now)
            case EventType.AGENT_UNPAUSED:
                after = transitions.unpaused(self._state)
            case EventType.AGENT_STOPPED:
                after = self._stopped(facts, now)
            case _ if event.phase == Phase.PAUSED or event.data.get("why") == WHY_STOPPING_FOR_AGENT_PAUSE:
                self.was_paused = True
                after = self._state if self._rules.is_never_paused else transitions.paused(self._state)
            case _ if event.phase == Phase.STOPPING and event.data.get("why") not in NO_STOP:
                after = self._stopped(facts, now)
            case _:
                return
        if after.stopped_at != self._state.stopped_at and self._run is None:
            until = self._sleeps[self._next_run]
            after = replace(after, sleep_until=until if until and until > now else None)
        self._state = after

    def _stopped(self, facts: AgentFacts, now: datetime) -> AgentState:
        if self._run is None and not is_about_to_start(facts, now, self._rules.policy):
            return self._state
        return transitions.stopped(facts, now)

    def _take_notification(self, event: Event, id_: UUID, now: datetime) -> None:
        life, one = self._lives.get((event.id, id_)), self._queue.get(id_)
        if life is not None:
            priority = life.priority
            if event.type is EventType.NOTIFICATION_CREATED:
                priority = self._rules.priorities.get(life.source, priority)
            arrival = Arrival(id_, life, priority, life.scheduled_for, len(self.wakes), now)
            arrival.active_at = one.active_at if one is not None else None
            self._queue[id_] = arrival
            self.watched_arrival = arrival if id_ == self._watched else self.watched_arrival
            if arrival.active_at is None:
                self._activate(arrival, activation(priority, life.scheduled_for, now), now)
        elif one is None:
            return
        elif event.type is EventType.NOTIFICATION_DELETED:
            del self._queue[id_]
            self._epoch = None
        elif event.type is EventType.NOTIFICATION_CLEARED:
            if self._is_cleared_now(one):
                self._clear(one, now)
        elif event.type is EventType.NOTIFICATION_CHANGED:
            self._change(one, event, now)

    def _change(self, one: Arrival, event: Event, now: datetime) -> None:
        since, before = one.active_at, one.scheduled_for
        one.priority = Priority(event.data.get("priority", one.priority))
        if "scheduled_for" in event.data.get("fields", ()):
            one.scheduled_for = moment_of(event.data.get("scheduled_for"))
        since = since if one.scheduled_for == before else None
        active_at = activation(one.priority, one.scheduled_for, now, since=since)
        if active_at != one.active_at:
            self._activate(one, active_at, now)

    def _activate(self, one: Arrival, active_at: datetime | None, now: datetime) -> None:
        """Make it active after all that the agent went through before, unless it is a reminder."""
        is_new = now >= self._recording.start
        if active_at is not None and active_at != one.scheduled_for and is_new:
            state = self._state
            others = (state.last_started_at, state.last_ended_at, state.stopped_at, state.seen_until)
            latest = max(filter(None, (self._last_active_at, *others)), default=None)
            active_at = active_at if latest is None else max(active_at, latest + MOMENT)
            self._last_active_at = active_at
        if one.active_at is not None:
            self._epoch = None
        one.active_at = active_at
        self._uncounted.append(one)

    def _is_cleared_now(self, one: Arrival) -> bool:
        """Return whether the recorded clearing happens here, too: not by a run that came earlier or later."""
        life, wake = one.life, self._run
        if life.cleared_by is None or wake is None:
            return life.cleared_by is None
        came_during_run = life.cleared_by < life.first_run
        return (wake.is_recorded and wake.number == life.cleared_by) or came_during_run

    def _clear(self, one: Arrival, now: datetime) -> None:
        if one.cleared_at is not None or self._queue.get(one.id) is not one:
            return
        one.cleared_at = now
        if one.active_at is not None:
            self.waits.append(_wait(one))
        del self._queue[one.id]
        self._epoch = None

    # Facts

    def _facts_at(self, now: datetime) -> AgentFacts:
        self._now = now
        settings, wake = self._rules.facts, self._run
        return replace(
            settings,
            state=self._state,
            organization_paused=self._paused,
            pending=self._groups(now),
            pending_at_start=self._pending_at_start,
            budgets=tuple(
                replace(one, spent_usd=self._spent_of(one.cap_usd, one.of_organization, now))
                for one in settings.budgets
            ),
            limits=self._limits_at(settings.limits, now),
            interrupted_sleep_until=self._state.last_wake_interrupted_sleep_until if wake else None,
            wake_reason=wake.reason if wake else "",
        )

    def _spent_of(self, cap_usd: Decimal, of_organization: bool, now: datetime) -> Decimal:
        if of_organization:
            return cap_usd if now < self._shared_cap_until else min(Decimal(0), cap_usd - 1)
        return self.spent_on(now)

    def _limits_at(self, limits: WakeLimits, now: datetime) -> WakeLimits:
        if limits == NO_LIMITS:
            return limits
        per_hour, per_day = limits.max_wakes_per_hour, limits.max_wakes_per_day
        return replace(
            limits,
            fills_hour_at=self._filling(per_hour, now - HOUR),
            fills_day_at=self._filling(per_day, now - 2 * DAY),
        )

    def _filling(self, limit: int | None, after: datetime) -> datetime | None:
        """Return the start that fills a limit, if it is later than a moment."""
        if not limit or len(self._starts) < limit or self._starts[-limit] <= after:
            return None
        return self._starts[-limit]

    def _groups(self, now: datetime) -> tuple[PendingGroup, ...]:
        """Return the active notifications. They are counted anew after a run, a stop or a clearing only."""
        state = self._state
        epoch = (state.stopped_at, state.seen_until, state.last_started_at, state.last_ended_at, state.run_id)
        if epoch != self._epoch:
            self._epoch, self._counted, self._uncounted = epoch, {}, list(self._queue.values())
        later, counted = [], self._counted
        for one in self._uncounted:
            at, is_reminder = one.active_at, one.is_reminder
            if at is None:
                continue
            if is_reminder and at > now:
                later.append(one)
                continue
            period = _period(at, state, is_reminder=is_reminder)
            key = (one.life.source, is_reminder, period, one.life.urgent)
            count, first_at, last_at = counted.get(key, (0, at, at))
            counted[key] = (count + 1, min(first_at, at), max(last_at, at))
        self._uncounted = later
        ahead = [
            PendingGroup(one.life.source, True, ActivationPeriod.AHEAD, 1, at, at, one.life.urgent)
            for one in later
            if (at := one.active_at) is not None
        ]
        past = (
            PendingGroup(source, is_reminder, period, *numbers, urgent)
            for (source, is_reminder, period, urgent), numbers in counted.items()
        )
        return (*past, *ahead)


def _period(at: datetime, state: AgentState, *, is_reminder: bool) -> ActivationPeriod:
    """Return when it became active, as the statement that reads an agent's facts does."""
    seen_until = None if is_reminder else state.seen_until
    if state.stopped_at is not None and at <= max(state.stopped_at, seen_until or state.stopped_at):
        return ActivationPeriod.STOPPED
    if state.last_started_at is None:
        return ActivationPeriod.SINCE
    if at <= max(state.last_started_at, seen_until or state.last_started_at):
        return ActivationPeriod.BEFORE
    if state.last_ended_at is not None and at > state.last_ended_at and state.run_id is None:
        return ActivationPeriod.SINCE
    return ActivationPeriod.DURING


def _wait(one: Arrival) -> tuple[Source, datetime, datetime | None]:
    return one.life.source, one.active_at or one.cleared_at or LAST_MOMENT, one.cleared_at


def _day(moment: datetime) -> date:
    return moment.astimezone(UTC).date()
