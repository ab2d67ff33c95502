"""The judge of a simulation: checks the invariants I1 to I6 and N8 against what the store holds.

It computes when each agent must start by itself, without `supervisors.policy`. If a fault, a crash or a step
of the clock makes punctuality impossible, it allows the time that a repair takes, and no more.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from uuid import UUID

from hostsvc_testing.memory.tables import QUANTUM_SECONDS, Nobody, Tables
from hostsvc_testing.virtual.clock import Wall
from hostsvc_testing.virtual.history import History
from hostsvc_testing.virtual.virtual_loop import VirtualLoop
from storage.agent_facts import AgentState, RunEnd, RunStart, StateUpdate
from storage.model import AgentStatus, Notification, Outcome, Source
from supervisors.engine.messages import Signal, SleepGranted
from supervisors.engine.run import SHUTTING_DOWN, ActiveRun
from tests.simulation.arrivals import ROUNDING, Arrivals, by_present_clock
from tests.simulation.due import (
    CONVERSATIONAL,
    QUARANTINED_AFTER,
    SECOND,
    Due,
    backoff,
    due_of,
    failures_after,
    has_kept_failures,
    is_over_budget,
    may_wake,
    quarantine,
    window_of,
)
from tests.simulation.faulty_wire import IDLE_IN_TRANSACTION_SECONDS
from tests.simulation.judge_texts import OWNED, change_text, moment
from tests.simulation.process import SUPERVISORS, SWEEP_SECONDS, SimulatedProcess

# The next scan repairs a lost signal. The scan itself may have to wait for the trouble to pass.
REPAIR_SECONDS = SUPERVISORS.scan_interval_seconds + 2.0
SWEPT_SECONDS = 2 * SWEEP_SECONDS  # what a lost ring may cost if the row shows what it was about
# The others tell of changes of the agent or its notifications: the attendant sees them when its timer fires.
UNSWEPT_SECONDS = SUPERVISORS.debounce_cap_seconds + SWEEP_SECONDS
RETRIED_SECONDS = SWEPT_SECONDS  # until a node has tried again that was refused by a limit over all nodes
LONGEST_WAIT_SECONDS = 60.0  # in a queue: all others run as long as they may before, with time to spare
# The reasons of a start by a hold, or by taking its messages for older ones.
BY_MESSAGE = frozenset({*(f"notification:{source}" for source in CONVERSATIONAL), "uncleared_notifications"})
RETRIES = frozenset({"retry_after_failure", "restart_recovery", "uncleared_notifications"})


class Violation(Exception):
    """An invariant was violated."""


class Judge(Nobody):
    """A witness of every commit, run and quiet moment. The first violation is the verdict."""

    def __init__(
        self,
        tables: Tables,
        wall: Wall,
        loop: VirtualLoop,
        history: History,
        slots: int,
        organization_limit: int,
    ) -> None:
        self.tables = tables
        self.wall = wall
        self.loop = loop
        self.history = history
        self._slots = slots
        self._organization_limit = organization_limit
        self.verdict: Violation | None = None
        self.is_up = False
        self._led_until: dict[int, float] = {}  # node -> when it was confirmed last, if it is not now
        self._running: dict[
            UUID, tuple[ActiveRun, SimulatedProcess]
        ] = {}  # agent -> run that a harness executes
        self._in_trouble: dict[SimulatedProcess, float] = {}  # until when its agents are excused
        self._timers: dict[
            UUID, SimulatedProcess
        ] = {}  # agent -> who has written its row last, and may have its timer
        self._lenient_until: dict[UUID | None, float] = {}
        self._calm_at = 0.0  # when leniency ends for every agent
        self._touched_at: dict[UUID, float] = {}
        self._moved_at: dict[UUID, float] = {}
        self._rests_since: dict[UUID, float] = {}  # the last start, end, stop or pause
        self._queued_since: dict[UUID, float] = {}
        self._beside_room_since: dict[UUID, float] = {}  # queued agents that could start
        self._began_at = 0.0  # when the service was last up again
        self._set_back_at = -1.0
        self._stepped_until = 0.0
        self._arrivals = Arrivals()
        self._unchecked: set[UUID] = set()
        self.unheard: set[UUID] = set()  # agents changed by another program since their last update
        self._due: dict[UUID, datetime] = {}
        self._cut_short: dict[UUID, datetime] = {}  # run -> sleep that its start ended
        self._asked: Counter[UUID] = Counter()  # run requests without an answer yet
        self._accounts: Counter[UUID] = Counter()
        self._starts: defaultdict[UUID, list[datetime]] = defaultdict(list)  # by agent
        self.owned_writes: Counter[UUID] = Counter()  # writes by clients of what a supervisor owns, by agent

    def condemn(self, invariant: str, agent_id: UUID | None, what: str) -> None:
        """Record a violation; the first one counts."""
        line = f"{invariant} violated by {self.history.name(agent_id)}: {what}"
        self.history.note(f"!! {line}")
        if self.verdict is None:
            self.verdict = Violation(line)

    # Reports of the simulated world

    def disturbed(self, agent_id: UUID | None, seconds: float) -> None:
        """Take note of a fault in a statement about this agent, or about any agent (None)."""
        until = self.loop.time() + seconds + REPAIR_SECONDS
        self._lenient_until[agent_id] = max(until, self._lenient_until.get(agent_id, 0.0))
        self._calm_at = max(until, self._calm_at)
        if self._organization_limit and agent_id in self.tables.agents:
            # Its start may hold the lock that all starts of its organization take.
            owner = self.tables.agents[agent_id].organization_id
            for other in self.tables.agents.values():
                if other.organization_id == owner:
                    self._excuse(other.id, seconds)

    def changed_by_another_program(self, agent_id: UUID) -> None:
        """Take note of a change of which the service is not told; a scan has to find it."""
        self.disturbed(agent_id, 0)
        self.unheard.add(agent_id)

    def stepped(self, seconds: float) -> None:
        """Take note of a step of the wall clock."""
        if seconds < 0:
            self._set_back_at = self.loop.time()
        self._stepped_until = self.loop.time() + REPAIR_SECONDS  # until a scan notices it
        self._arrivals.stepped()
        self._unchecked.update(self.tables.states)

    def began(self) -> None:
        """Take note that the service is up and has recovered."""
        self.is_up = True
        self._began_at = self.loop.time()
        self._unchecked.update(self.tables.states)

    def lost_lead(self, node_id: int) -> None:
        """Forbid any start by this node until it is confirmed again."""
        self.is_up = bool(self._in_trouble)
        self._led_until[node_id] = self.loop.time()

    def regained_lead(self, node_id: int) -> None:
        self._led_until.pop(node_id, None)

    def ring_is_late(self, signal: Signal, agent_id: UUID) -> None:
        """Take note of a ring that comes late or never. Only the row tells what the sweep can make up for."""
        seconds = SWEPT_SECONDS if signal is Signal.NOTIFIED else UNSWEPT_SECONDS
        self._excuse(agent_id, seconds)

    def node_in_trouble(self, process: SimulatedProcess) -> None:
        """Excuse the agents of a node from now on: it does not act on them, and no other does yet."""
        self._in_trouble[process] = math.inf
        latest = self.loop.time() - QUANTUM_SECONDS
        just_touched = {agent_id for agent_id, at in self._touched_at.items() if at >= latest}
        for agent_id in just_touched | process.wire.agents_under_way():  # nobody may be told of their commits
            self._excuse(agent_id, UNSWEPT_SECONDS)
        if self._organization_limit and process.wire.is_in_transaction:
            # All starts of an organization may wait for that.
            self._excuse(None, IDLE_IN_TRANSACTION_SECONDS + RETRIED_SECONDS)

    def node_is_made_up_for(self, process: SimulatedProcess, seconds: float) -> None:
        """Excuse the agents of the node for so long: it has recovered, or others know that it is gone."""
        self._in_trouble[process] = self.loop.time() + seconds
        self._calm_at = max(self._calm_at, self.loop.time() + seconds)
        self._unchecked.update(self.tables.states)

    def node_died(self, process: SimulatedProcess) -> None:
        """Take note that nothing of the process goes on, though a commit may still arrive."""
        for agent_id, (_, where) in list(self._running.items()):
            if where is process:
                del self._running[agent_id]

    def begins(self, process: SimulatedProcess) -> None:
        """Take note that a process begins, which knows only the stored times of messages."""
        for agent_id in self.tables.states:
            self._arrivals.forgotten(self.tables.queue(agent_id), self.wall.now(), self.wall.monotonic())

    def died(self) -> None:
        self.is_up = False
        self._led_until.clear()
        self._running.clear()

    @contextmanager
    def asks_to_run(self, agent_id: UUID) -> Iterator[None]:
        """Note that somebody asks for a run of this agent while the block lasts."""
        self._asked[agent_id] += 1
        try:
            yield
        finally:
            self._asked[agent_id] -= 1

    def account(self, agent_id: UUID) -> int:
        """Return how often the agent has been started, ended or stopped."""
        return self._accounts[agent_id]

    def run_began(self, run: ActiveRun, process: SimulatedProcess) -> None:
        if self._goes_on(run.agent_id, process):
            other, _ = self._running[run.agent_id]
            self.condemn("I1", run.agent_id, f"#{run.id.int} runs while #{other.id.int} does")
        self._running[run.agent_id] = run, process

    def run_over(self, run: ActiveRun) -> None:
        if self._running.get(run.agent_id, (None, None))[0] is run:
            del self._running[run.agent_id]
        self._unchecked.add(run.agent_id)

    def calls(self, run: ActiveRun, process: SimulatedProcess) -> None:
        """Take note that a run calls a model or a tool: no unconfirmed node may."""
        if not process.node.is_confirmed:
            self.condemn("N4", run.agent_id, f"#{run.id.int} calls a model, and its node is not confirmed")

    def _goes_on(self, agent_id: UUID, process: SimulatedProcess | None) -> bool:
        """Return whether something of a run goes on, so that no other may begin in this process.

        What a run does after its sleep is stored harms none of another process, unless it says that it may
        linger; until it hears of that, it only waits for the answer.
        """
        run, where = self._running.get(agent_id, (None, None))
        if run is None:
            return False
        stored = self.tables.runs.get(run.id)
        is_asleep = run.slept.is_set() or (stored is not None and stored.outcome is Outcome.SLEPT)
        return where is process or run.may_linger or not is_asleep

    def sleep_granted(self, run: ActiveRun, granted: SleepGranted) -> None:
        cap, until = run.max_sleep_until, granted.sleep_until
        if cap is not None and (until is None or until > cap):
            self.condemn("I4", run.agent_id, f"is granted sleep until {moment(until)}, beyond its cap")
        ended = self.tables.runs.get(run.id)
        if ended is not None and ended.outcome is None:
            self.condemn("I3", run.agent_id, "is granted sleep, and its run has not ended")

    def activated(self, notification: Notification) -> None:
        if notification.activated_at == notification.scheduled_for:
            return
        self._arrivals.activated(notification, self.wall.now(), self.wall.monotonic())
        state = self.tables.states[notification.agent_id]
        moments = (state.last_started_at, state.last_ended_at, state.stopped_at)
        latest = max((each for each in moments if each is not None), default=None)
        if latest and notification.activated_at and notification.source is not Source.AGENT:
            is_later = notification.activated_at > latest
            self._require(is_later, "I2", state, f"takes {notification.title} for an old message")

    def changed(self, agent_id: UUID, what: str) -> None:
        self._touched_at[agent_id] = self.loop.time()
        self._unchecked.add(agent_id)
        self.history.note(f"{self.history.name(agent_id)} {what}")

    def moved(self, before: AgentState, after: AgentState, update: StateUpdate) -> None:
        self._unchecked.add(after.agent_id)
        self.unheard.discard(after.agent_id)
        if (writer := self._writer()) is not None:
            self._timers[after.agent_id] = writer
        self._moved_at[after.agent_id] = self.loop.time()
        self.history.note(f"{self.history.name(after.agent_id)} {change_text(before, after, update)}")
        if update.start or update.end or after.stopped_at != before.stopped_at:
            self._accounts[after.agent_id] += 1
            self._rests_since[after.agent_id] = self.loop.time()
        if after.paused != before.paused or after.status is not before.status:
            self._rests_since[after.agent_id] = self.loop.time()
        overwritten = [name for name in OWNED if getattr(before, name) != getattr(update.before, name)]
        self._require(not overwritten, "I3", after, f"{', '.join(overwritten)} overwritten unseen")
        if update.start is not None:
            self._check_start(before, after, update.start)
            self._check_limit(after)
            self._starts[after.agent_id].append(update.start.started_at)
        if update.end is not None:
            self._check_end(before, after, update.end)
        if after.last_started_at and after.max_sleep_until and after.sleep_until:
            self._require(
                after.sleep_until <= after.max_sleep_until, "I4", after, "is to sleep longer than its cap"
            )

    # Checks

    def at_rest(self) -> None:
        """Check that every agent that is due has started, as nothing more happens at this moment."""
        if self.verdict is not None:
            raise self.verdict
        if not self.is_up:
            return
        now = self.wall.now()
        ripe = [agent_id for agent_id, at in self._due.items() if at <= now]
        for agent_id in sorted({*ripe, *self._unchecked}):
            state = self.tables.states.get(agent_id)
            self._due.pop(agent_id, None)
            if state is None:
                self._unchecked.discard(agent_id)
            elif self.is_lenient(agent_id):
                self._unchecked.add(agent_id)
            else:
                self._unchecked.discard(agent_id)
                self._check_rest(state, now)
        if self.verdict is not None:
            raise self.verdict

    def _check_rest(self, state: AgentState, now: datetime) -> None:
        agent = self.tables.agents[state.agent_id]
        runs = state.agent_id in self._running
        if state.run_id is not None and not runs:
            self.condemn(
                "I2", state.agent_id, f"{self.history.name(state.run_id)} is stored, and nothing runs"
            )
        is_held = state.paused or self.tables.organizations[agent.organization_id].paused
        may_wait = state.status is AgentStatus.SLEEPING and not (runs or is_held)
        if not may_wait or state.queued_at is None:
            self._queued_since.pop(state.agent_id, None)
            self._beside_room_since.pop(state.agent_id, None)
        if not may_wait:
            return
        if state.queued_at is not None:
            self._check_queued(state, agent.organization_id)
            self._unchecked.add(state.agent_id)
            return
        due = self._due_of(state, now)
        if due is None:
            return
        queue = self.tables.queue(state.agent_id)
        if due.invariant == "I5" and not self._arrivals.are_exact(queue):
            self._check_hold_after_step(state, due, now)
        else:
            self._check_due(state, due, queue, now)

    def _check_queued(self, state: AgentState, organization_id: UUID) -> None:
        """Check that the agent does not wait beside a slot that it may have, nor for ever."""
        agent_id, loop_time = state.agent_id, self.loop.time()
        calm_at = max(self._calm_at, self._stepped_until, self._began_at)
        if self._organization_limit:  # a node in trouble may hold what the others wait for
            calm_at = max([calm_at, *self._in_trouble.values()])
        there = [run for run, where in self._running.values() if where.node.node_id == state.node_id]
        if len(there) < self._slots and self.may_run_more(organization_id):
            since = max(calm_at, self._beside_room_since.setdefault(agent_id, loop_time))
            if loop_time - since >= (RETRIED_SECONDS if self._organization_limit else 0):
                self.condemn("I2", agent_id, "is queued though there is a free slot")
        else:
            self._beside_room_since.pop(agent_id, None)
        since = max(calm_at, self._queued_since.setdefault(agent_id, loop_time))
        if loop_time - since > LONGEST_WAIT_SECONDS:
            self.condemn("I2", agent_id, f"is queued for {loop_time - since:g} s")

    def _check_limit(self, started: AgentState) -> None:
        runs = len(self._with_stored_run(self.tables.agents[started.agent_id].organization_id))
        is_within = not self._organization_limit or runs <= self._organization_limit
        self._require(is_within, "N8", started, f"starts as number {runs} of its organization")

    def may_run_more(self, organization_id: UUID) -> bool:
        """Return whether the organization has fewer runs than it may, counting also those that linger."""
        stored = self._with_stored_run(organization_id)
        agents = self.tables.agents
        going_on = {each for each in self._running if agents[each].organization_id == organization_id}
        return not self._organization_limit or len(stored | going_on) < self._organization_limit

    def _with_stored_run(self, organization_id: UUID) -> set[UUID]:
        """Return the organization's agents with a run that has not ended as far as the rows tell."""
        states, agents = self.tables.states, self.tables.agents
        return {
            agent_id
            for agent_id, state in states.items()
            if state.run_id is not None and agents[agent_id].organization_id == organization_id
        }

    def _check_hold_after_step(self, state: AgentState, due: Due, now: datetime) -> None:
        """Check that a hold waits for one window more at most, from when the step may be noticed on."""
        agent_id = state.agent_id
        seen_at = max(
            self._calm_at,
            self._stepped_until,
            self._began_at,
            self._touched_at.get(agent_id, 0.0),
            self._rests_since.get(agent_id, 0.0),
        )
        latest = max(due.at, now + timedelta(seconds=seen_at - self.loop.time()))
        latest += window_of(self.tables, state) * SECOND + ROUNDING
        self._due[agent_id] = latest
        if latest <= now:
            self.condemn("I5", state.agent_id, f"holds still, though {due.why} came at {moment(due.at)}")

    def _check_due(self, state: AgentState, due: Due, queue: list[Notification], now: datetime) -> None:
        # After the clock is set back, a scan finds what lies ahead once it is due: also a message whose
        # signal came while no run might start.
        if any(one.title == due.why and one.activated_at and one.activated_at > now for one in queue):
            self._unchecked.add(state.agent_id)
            return
        is_ahead_again = self._moved_at.get(state.agent_id, 0.0) <= self._set_back_at
        slack = timedelta(seconds=REPAIR_SECONDS) if is_ahead_again else ROUNDING
        self._due[state.agent_id] = due.at + slack
        if due.at + slack <= now:
            self.condemn(
                due.invariant, state.agent_id, f"sleeps though {due.why} was due at {moment(due.at)}"
            )
        elif not is_ahead_again and (state.next_due_at is None or state.next_due_at > due.at + ROUNDING):
            self.condemn(
                due.invariant,
                state.agent_id,
                f"is looked at next at {moment(state.next_due_at)}, "
                f"though {due.why} is due at {moment(due.at)}",
            )

    def _check_start(self, before: AgentState, after: AgentState, start: RunStart) -> None:
        agent_id = after.agent_id
        if before.sleep_until is not None and before.sleep_until > start.started_at:
            self._cut_short[start.run_id] = before.sleep_until
        self._require(has_kept_failures(before, after), "I2", after, "forgets its failures with the start")
        self._require(
            before.status is AgentStatus.SLEEPING and before.run_id is None,
            "I1",
            after,
            f"starts while it is {before.status} with {self.history.name(before.run_id)}",
        )
        self._require(not before.paused, "Pause", after, "starts while it is paused")
        goes_on = self._goes_on(agent_id, self._writer())
        self._require(not goes_on, "I1", after, "starts while its last run goes on")
        led_until = self._led_until.get(after.node_id or 0)
        has_lead = led_until is None or led_until == self.loop.time()
        self._require(has_lead or self._is_disturbed(agent_id), "N4", after, "starts on an unconfirmed node")
        hours = self.tables.agents[agent_id].max_sleep_hours
        cap = None if hours is None else start.started_at + timedelta(hours=hours)
        is_disturbed = self._is_disturbed(agent_id) or self._was_touched(agent_id)
        is_late = self.is_lenient(agent_id) or is_disturbed
        if not is_late:
            self._require(after.max_sleep_until == cap, "I4", after, "has another cap than it should")
        over_budget = is_over_budget(self.tables, agent_id, start.started_at)
        is_excused = is_late or not self.is_up  # the process that asked died during the start
        may_spend = not over_budget or is_excused
        self._require(may_spend, "Budget", after, "starts, and may spend nothing")
        self._check_limits(after, start, is_excused=is_late)
        if start.wake_reason == "run_requested":
            is_asked = before.run_requested_at is not None or self._asked[agent_id] > 0
            self._require(is_asked or is_excused, "I2", after, "runs by request, and nobody has asked")
            return
        due = self._due_of(before, start.started_at)
        may_be_early = (
            due is not None
            and start.wake_reason in BY_MESSAGE
            and not self._arrivals.are_exact(self.tables.queue(agent_id))
        )
        if not is_late and not may_be_early:
            self._require_due(after, due, start)

    def _check_limits(self, after: AgentState, start: RunStart, *, is_excused: bool) -> None:
        """Check that the agent has not woken as often as it may, unless a person woke it."""
        agent_id, at = after.agent_id, start.started_at
        is_allowed = may_wake(self.tables, agent_id, at, at, self._starts[agent_id])
        is_urgent = any(one.urgent for one in self.tables.queue(agent_id) if one.activated_at)
        passes = start.wake_reason == "run_requested" or is_urgent
        self._require(is_allowed or passes or is_excused, "Limits", after, "starts in spite of its limits")

    def _due_of(self, state: AgentState, now: datetime) -> Due | None:
        def arrival(one: Notification) -> datetime:
            return self._arrivals.shown_at(one, self.wall.now(), self.wall.monotonic())

        cap_seconds, starts = SUPERVISORS.debounce_cap_seconds, self._starts[state.agent_id]
        return due_of(self.tables, state, now, cap_seconds, arrival, starts)

    def _require_due(self, after: AgentState, due: Due | None, start: RunStart) -> None:
        if due is None:
            self.condemn("I6", after.agent_id, f"starts by {start.wake_reason}, and nothing is there")
        elif due.at > by_present_clock(start.started_at, self.wall.now()) + ROUNDING:
            self.condemn(
                due.invariant, after.agent_id, f"starts before {due.why} is due, at {moment(due.at)}"
            )

    def _check_end(self, before: AgentState, after: AgentState, end: RunEnd) -> None:
        self._require(
            before.run_id == end.run_id,
            "I1",
            after,
            f"the end of {self.history.name(end.run_id)} is written over {self.history.name(before.run_id)}",
        )
        if end.outcome is not Outcome.SLEPT:
            was_drained = end.error == SHUTTING_DOWN
            if before.stopped_at is not None or before.status is AgentStatus.ARCHIVED:
                return
            if was_drained:
                self._require(after.retry_at == end.ended_at, "I2", after, "is not to go on at once")
            else:
                self._check_what_follows(before, after, end)
            return
        for one in self._active(after.agent_id, end.ended_at):
            self.condemn("I4", after.agent_id, f"is let sleep while {one.title} is active")
        if after.max_sleep_until is not None:
            self._require(
                after.sleep_until is not None, "I4", after, "is to sleep for ever in spite of a cap"
            )

    def _check_what_follows(self, before: AgentState, after: AgentState, end: RunEnd) -> None:
        """Check the retry after a run that ended by itself without sleeping."""
        moments = (self._interrupted_sleep(end), before.sleep_until, before.max_sleep_until)
        until = min((moment for moment in moments if moment is not None), default=None)
        self._require(
            after.sleep_until == until,
            "I4",
            after,
            f"sleeps until {moment(after.sleep_until)}, not {moment(until)}",
        )
        expected = failures_after(before, after, end.outcome, made_progress=self._made_progress(end))
        self._require(
            after.failures in expected, "I2", after, f"has {after.failures} failures, not {expected}"
        )
        if after.retry_reason not in RETRIES or after.retry_at is None:
            return
        is_first = after.retries == 1 and (before.retries == 0 or self._made_progress(end))
        is_next = after.retries == before.retries + 1
        self._require(is_first or is_next, "I2", after, f"is at retry {after.retries} after {before.retries}")
        is_too_often = after.failures >= QUARANTINED_AFTER
        retry_at = end.ended_at + (quarantine(after.failures) if is_too_often else backoff(after.retries))
        latest = retry_at + (SECOND if end.outcome is Outcome.INTERRUPTED else timedelta())
        self._require(
            retry_at <= after.retry_at <= latest,
            "I2",
            after,
            f"is tried again at {moment(after.retry_at)}, not at {moment(retry_at)}",
        )

    def _interrupted_sleep(self, end: RunEnd) -> datetime | None:
        """Return the sleep that the start of this run cut short, if its end is still ahead."""
        until = self._cut_short.get(end.run_id)
        return until if until is not None and until > end.ended_at else None

    def _made_progress(self, end: RunEnd) -> bool:
        """Return whether something that was there when the run began is cleared or postponed."""
        run = self.tables.runs[end.run_id]
        latest = min(run.started_at, end.ended_at)
        there = (self.tables.notifications.get(one) for one in run.notifications)
        return any(one is None or one.activated_at is None or one.activated_at > latest for one in there)

    def _active(self, agent_id: UUID, now: datetime) -> Iterator[Notification]:
        """Return what is high, uncleared and due. What fell due during the query may be missed."""
        is_exact = not (self.is_lenient(agent_id) or self.loop.time() < self._stepped_until)
        for one in self.tables.queue(agent_id):
            if one.activated_at is None:
                continue
            is_reminder = one.scheduled_for == one.activated_at
            if not is_reminder or (is_exact and one.activated_at <= _beginning_of_moment(now)):
                yield one

    def _require(self, holds: bool, invariant: str, of: AgentState, what: str) -> None:
        if not holds:
            self.condemn(invariant, of.agent_id, what)

    def is_lenient(self, agent_id: UUID) -> bool:
        """Return whether a fault or a step of the clock excuses what happens to the agent now."""
        return self._is_disturbed(agent_id) or self.loop.time() < self._stepped_until

    def _excuse(self, agent_id: UUID | None, seconds: float) -> None:
        until = self.loop.time() + seconds
        self._lenient_until[agent_id] = max(until, self._lenient_until.get(agent_id, 0.0))
        self._calm_at = max(until, self._calm_at)
        self._unchecked.update(self.tables.states if agent_id is None else {agent_id})

    def _writer(self) -> SimulatedProcess | None:
        """Return the process whose commit this is."""
        return self.loop.owner if isinstance(self.loop.owner, SimulatedProcess) else None

    def _is_in_trouble(self, agent_id: UUID) -> bool:
        """Return whether a node in trouble attends the agent, or would have to look after it."""
        state = self.tables.states.get(agent_id)
        for process, until in self._in_trouble.items():
            node = process.node
            is_its = self._timers.get(agent_id) is process
            is_its = is_its or (state is not None and state.node_id == node.node_id)
            if self.loop.time() < until and (is_its or node.responsible_for(agent_id) == node.node_id):
                return True
        return False

    def _is_disturbed(self, agent_id: UUID) -> bool:
        """Return whether a fault excuses what happens to the agent now."""
        if self._in_trouble and self._is_in_trouble(agent_id):
            return True
        return self.loop.time() < max(self._lenient_until.get(key, 0.0) for key in (agent_id, None))

    def _was_touched(self, agent_id: UUID) -> bool:
        """Return whether it was changed at this very moment, which the supervisor need not have seen."""
        return self._touched_at.get(agent_id) == self.loop.time()


def _beginning_of_moment(moment: datetime) -> datetime:
    """Return the moment without the microseconds that reads have added."""
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)
