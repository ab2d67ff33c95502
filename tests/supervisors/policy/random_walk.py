"""A random walk of one agent through its phases: the rules alone, without a database or waiting."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from random import Random
from uuid import uuid4

from storage.agent_facts import ActivationPeriod, AgentFacts, AgentState, Budget, PendingGroup
from storage.model import AgentStatus, Outcome, Source
from supervisors.policy import explanations, transitions
from supervisors.policy.decisions import active_count, decide
from supervisors.policy.phases import Phase
from tests.storage.factories import NOW
from tests.supervisors.agent_facts import POLICY, facts, seconds, state

WINDOW_SECONDS = 20


class RandomAgent:
    """An agent to which a random event happens at each step; then it rests or starts as the rules say."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.now = NOW
        self.state: AgentState = state(failures=random.choice((0, 4)), retries=random.choice((0, 8)))
        self.queue: list[tuple[Source, datetime, bool]] = []  # source, activated at, is a reminder
        self.paused = False
        self.has_slot = True
        self.is_over_budget = False
        self.run_is_stopping = False
        self.active_at_start = 0

    @property
    def phase(self) -> Phase:
        seen = self.get_facts()
        decision = decide(seen, self.now, POLICY)
        return explanations.phase_of(seen, decision, self.now, run_is_stopping=self.run_is_stopping)

    def step(self) -> str:
        """Make one event happen and return its name."""
        self.now += seconds(1)
        [event] = self.random.choices(list(EVENT_WEIGHTS), list(EVENT_WEIGHTS.values()))
        event(self)
        self.settle()
        return str(event.__name__)

    def get_facts(self) -> AgentFacts:
        waiting = tuple(
            PendingGroup(source, is_reminder, self._period(at, is_reminder), 1, at, at)
            for source, at, is_reminder in self.queue
        )
        return facts(
            self.state,
            *waiting,
            agent_window_seconds=WINDOW_SECONDS,
            organization_paused=self.paused,
            budgets=(Budget(False, Decimal(5), Decimal(5)),) if self.is_over_budget else (),
            pending_at_start=self.active_at_start,
        )

    def settle(self) -> None:
        seen = self.get_facts()
        wake = decide(seen, self.now, POLICY).due_wake(self.now)
        if wake is not None and self.state.run_id is None:
            self.start(wake.reason)
        else:
            rested = replace(self.state, queued_at=None)
            self.state = self.armed(replace(seen, state=rested))

    def start(self, reason: str) -> None:
        seen = self.get_facts()
        if self.has_slot:
            self.active_at_start = active_count(seen)
            self.state = transitions.started(seen, uuid4(), reason, self.now)
        else:
            queued = transitions.queued(self.state, self.now)
            self.state = self.armed(replace(seen, state=queued))

    def armed(self, after: AgentFacts) -> AgentState:
        return transitions.with_next_due(after, decide(after, self.now, POLICY), self.now)

    def a_message_comes(self) -> None:
        self.queue.append((Source.SMS, self.now, False))

    def a_machine_notifies(self) -> None:
        self.queue.append((Source.API, self.now, False))

    def it_is_to_be_reminded(self) -> None:
        self.queue.append((Source.API, self.now + seconds(5), True))

    def all_is_cleared(self) -> None:
        self.queue.clear()

    def a_message_comes_and_its_leftovers_are_cleared(self) -> None:
        if self.state.run_id is None:
            self.queue = [(Source.SMS, self.now, False)]

    @property
    def is_paused(self) -> bool:
        return self.paused or self.state.paused

    def time_passes(self) -> None:
        wake = decide(self.get_facts(), self.now, POLICY).wake
        if wake is not None and wake.is_postponed:
            self.its_budget_is_raised()  # a day has gone by
        self.now = max(self.now + seconds(1), wake.at) if wake else self.now + seconds(60)

    def slots_are_taken(self) -> None:
        self.has_slot = False

    def a_slot_is_free(self) -> None:
        self.has_slot = True

    def a_run_is_requested(self) -> None:
        if self.state.status is AgentStatus.ARCHIVED or self.is_paused or self.is_over_budget:
            return
        if self.state.run_id is None:
            requested = transitions.run_requested(self.state, self.now)
            self.state = requested if not self.has_slot else self.state
            self.start("run_requested")
        elif self.run_is_stopping:
            self.state = transitions.run_requested(self.state, self.now)

    def it_is_stopped(self) -> None:
        within_budget = replace(self.get_facts(), budgets=())
        is_about_to_start = decide(within_budget, self.now, POLICY).phase is not Phase.ASLEEP
        if self.state.run_id is not None or self.state.queued_at or is_about_to_start:
            self.run_is_stopping = self.state.run_id is not None
            if self.state.status is not AgentStatus.ARCHIVED:
                self.state = transitions.stopped(self.get_facts(), self.now)

    def it_is_archived(self) -> None:
        self.run_is_stopping = self.state.run_id is not None
        self.state = transitions.archived(self.get_facts(), self.now)

    def it_is_restored(self) -> None:
        if self.state.status is AgentStatus.ARCHIVED:
            self.state = transitions.restored(self.get_facts(), self.now)

    def its_organization_is_paused(self) -> None:
        self.paused = True
        self.run_is_stopping = self.state.run_id is not None

    def the_pause_ends(self) -> None:
        self.paused = False

    def it_is_paused_alone(self) -> None:
        self.state = transitions.paused(self.state)
        self.run_is_stopping = self.state.run_id is not None

    def its_own_pause_ends(self) -> None:
        self.state = transitions.unpaused(self.state)

    def its_budget_is_spent(self) -> None:
        self.is_over_budget = True

    def its_budget_is_raised(self) -> None:
        self.is_over_budget = False

    def its_supervisor_fails(self) -> None:
        if self.state.status is AgentStatus.SLEEPING and not self.is_paused:
            self.state = transitions.failed(
                replace(self.state, queued_at=None), Outcome.FAILED, "it crashed", self.now, jitter=0
            )

    def its_run_sleeps(self) -> None:
        if self.state.run_id is not None and not self.run_is_stopping and active_count(self.get_facts()) == 0:
            until = self.random.choice((None, self.now + seconds(30)))
            self.state = transitions.slept(self.get_facts(), until, self.now)

    def its_run_ends(self) -> None:
        self.end(Outcome.STOPPED if self.run_is_stopping else Outcome.ENDED)

    def its_run_fails(self) -> None:
        self.end(Outcome.FAILED)

    def its_run_spends_what_is_left(self) -> None:
        if self.state.run_id is not None:
            self.is_over_budget = True
            self.end(Outcome.STOPPED if self.run_is_stopping else Outcome.BUDGET)

    def the_service_restarts(self) -> None:
        was_asked_to_stop = self.state.stopped_at is not None or self.is_paused
        self.end(Outcome.STOPPED if was_asked_to_stop else Outcome.INTERRUPTED)

    def end(self, outcome: Outcome) -> None:
        if self.state.run_id is not None:
            counts = outcome is not Outcome.BUDGET
            self.state = transitions.ended(self.get_facts(), outcome, "", self.now, counts=counts, jitter=0)
            self.run_is_stopping = False

    def _period(self, at: datetime, is_reminder: bool) -> ActivationPeriod:
        """Return the period as storage computes it."""
        seen = self.state
        if is_reminder and at > self.now:
            return ActivationPeriod.AHEAD
        if seen.stopped_at is not None and at <= seen.stopped_at:
            return ActivationPeriod.STOPPED
        if seen.last_started_at is None:
            return ActivationPeriod.SINCE
        if at <= seen.last_started_at:
            return ActivationPeriod.BEFORE
        has_ended = seen.run_id is None and seen.last_ended_at is not None
        return (
            ActivationPeriod.SINCE
            if has_ended and at > (seen.last_ended_at or at)
            else ActivationPeriod.DURING
        )


# The events and their weights: an archive or a pause hides everything else for a while, so they are rare.
EVENT_WEIGHTS: dict[Callable[[RandomAgent], None], int] = {
    RandomAgent.a_message_comes: 3,
    RandomAgent.a_machine_notifies: 3,
    RandomAgent.it_is_to_be_reminded: 3,
    RandomAgent.all_is_cleared: 3,
    RandomAgent.a_message_comes_and_its_leftovers_are_cleared: 1,
    RandomAgent.time_passes: 3,
    RandomAgent.slots_are_taken: 3,
    RandomAgent.a_slot_is_free: 3,
    RandomAgent.a_run_is_requested: 3,
    RandomAgent.it_is_stopped: 3,
    RandomAgent.it_is_archived: 1,
    RandomAgent.it_is_restored: 3,
    RandomAgent.its_organization_is_paused: 1,
    RandomAgent.the_pause_ends: 3,
    RandomAgent.it_is_paused_alone: 1,
    RandomAgent.its_own_pause_ends: 6,
    RandomAgent.its_budget_is_spent: 1,
    RandomAgent.its_budget_is_raised: 3,
    RandomAgent.its_supervisor_fails: 3,
    RandomAgent.its_run_sleeps: 3,
    RandomAgent.its_run_ends: 3,
    RandomAgent.its_run_fails: 3,
    RandomAgent.its_run_spends_what_is_left: 1,
    RandomAgent.the_service_restarts: 3,
}
