"""Bugs that the simulation must find, each planted by changing one line of a function.

The function is compiled with that line changed, and restored afterwards. Planting fails if the line is no
longer there: then look where the code has moved to, and plant the bug there. Each bug names a seed that
finds it. If that seed stops finding it, `python -m tests.simulation --bug NAME` searches for another one.
"""

import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from hostsvc_testing.memory import memory_facts, memory_states
from hostsvc_testing.memory.memory_queue import MemoryNotifications
from hostsvc_testing.memory.memory_schedules import MemorySchedules
from hostsvc_testing.memory.memory_states import MemoryStates
from storage.agent_facts import AgentState
from storage.events import reader
from supervisors.engine import updates
from supervisors.engine.context import RunSlots, SupervisorContext
from supervisors.engine.registry import Registry
from supervisors.engine.run import ActiveRun
from supervisors.engine.supervisor import Supervisor
from supervisors.maintenance.scans import BudgetRenewal, DueScan, Sweep
from supervisors.policy import attendance, decisions, limits, parked_calls, schedules, transitions
from supervisors.policy.attendance import View
from supervisors.tools import parking
from tests.simulation.cluster import SimulatedNode


@dataclass(frozen=True, slots=True)
class PlantedBug:
    """A bug made by replacing `right` with `wrong` in a function, and a seed that finds it."""

    what: str
    function: Callable[..., Any]
    right: str
    wrong: str
    seed: int

    def __str__(self) -> str:
        return self.what

    @contextmanager
    def planted(self) -> Iterator[None]:
        source = textwrap.dedent(inspect.getsource(self.function))
        if source.count(self.right) != 1:
            raise LookupError(f"{self.what}: {self.right!r} must occur once in {self.function.__qualname__}")
        compiled: dict[str, Any] = {}
        exec(source.replace(self.right, self.wrong), vars(inspect.getmodule(self.function)), compiled)  # noqa: S102
        [buggy] = compiled.values()
        correct = self.function.__code__
        self.function.__code__ = buggy.__code__  # wherever the function was imported
        try:
            yield
        finally:
            self.function.__code__ = correct


SLEEP_WITHOUT_WAKE_SEQ = PlantedBug(
    "sleep is granted without checking wake_seq",
    updates.plan_update,
    "guarded=True",
    "guarded=step.end is None",
    154,
)

PLANTED = (
    PlantedBug(
        "an await between the last mailbox check and clearing the busy flag",
        Registry._handle_messages,
        "    supervisor.is_handling = False",
        "    await asyncio.sleep(0); supervisor.is_handling = False",
        0,
    ),
    SLEEP_WITHOUT_WAKE_SEQ,
    PlantedBug(
        "a new message does not extend a hold",
        decisions.hold_for,
        "lasted + timedelta(seconds=window_seconds)",
        "timedelta(seconds=window_seconds)",
        2,
    ),
    PlantedBug(
        "a hold has no maximum length",
        decisions.hold_for,
        "timedelta(seconds=window_seconds), longest",
        "timedelta(seconds=window_seconds), lasted + longest",
        6,
    ),
    PlantedBug(
        "a hold waits until a clock that was set back catches up",
        decisions.hold_of,
        "hold.last_at > now + MAX_AHEAD",
        "False",
        56,
    ),
    PlantedBug(
        "a hold begins anew with each look after the clock was set back",
        decisions.hold_of,
        "else facts.state.next_due_at",
        "else None",
        56,
    ),
    PlantedBug(
        "a message after a step of the clock counts as one from before it",
        AgentState.activation_at,
        "[at, *(each + MOMENT for each in before if each is not None)]",
        "[at]",
        22,
    ),
    PlantedBug(
        "a start ignores the status of the agent",
        memory_states.guard_holds,
        "is_unchanged = (newest",
        "is_unchanged = update.start is not None or (newest",
        6,
    ),
    PlantedBug(
        "the end of a run is not fenced by its id",
        Supervisor._request_sleep,
        "seen.state.run_id != request.run_id or seen.state.stopped_at is not None",
        "seen.state.stopped_at is not None",
        154,
    ),
    PlantedBug(
        "recovery skips agents with a hold",
        MemoryStates._select,
        "select(list(self._tables.states.values()))",
        "select([s for s in self._tables.states.values() if s.run_id or not any("
        "one.source in ('sms', 'email') and one.activated_at not in (None, one.scheduled_for)"
        " for one in self._tables.queue(s.agent_id))])",
        16,
    ),
    PlantedBug(
        "moving a reminder loses its timer",
        MemoryNotifications._update,
        "if after.activated_at != before.activated_at:",
        "if before.activated_at is None or after.activated_at is None:",
        89,
    ),
    PlantedBug(
        "a reserved slot is not handed on",
        RunSlots.leave,
        "self.release(organization_id)",
        "decrement(self._in_use, organization_id)",
        111,
    ),
    PlantedBug(
        "a start that waits is stored, and nobody calls it",
        Supervisor.queue,
        "self.context.slots.wait(self.agent_id, facts.organization_id)",
        "pass",
        1,
    ),
    PlantedBug(
        "an agent that waits for a slot hears nothing",
        Registry.tell,
        "signal in DUE_SIGNALS and",
        "",
        70,
    ),
    PlantedBug(
        "a start ignores the budget",
        decisions._postpone,
        "replace(wake, at=until, is_postponed=True)",
        "wake",
        33,
    ),
    PlantedBug(
        "a budget is not renewed each day",
        memory_facts.budgets,
        "(owner_id, now.date())",
        "(owner_id, min(day for _, day in tables.spending) if tables.spending else now.date())",
        111,
    ),
    PlantedBug(
        "a raised cap reaches no agent",
        BudgetRenewal.run_once,
        "await tell_pages(partial(self.store.list_within_budget",
        "(lambda *_: None)(partial(self.store.list_within_budget",
        918,
    ),
    PlantedBug(
        "a backoff never doubles",
        transitions.backoff,
        "2 ** min(retries - 1, 16)",
        "1",
        1,
    ),
    PlantedBug(
        "no agent is quarantined",
        transitions._retry_delay,
        "quarantine(failures) if failures >= QUARANTINE_AFTER_FAILURES else backoff(retries)",
        "backoff(retries)",
        559,
    ),
    PlantedBug(
        "a run that clears nothing is no failure",
        transitions.ended,
        "state.failures + 1 if counts_as_failure else 0",
        "0",
        0,
    ),
    PlantedBug(
        "an interrupted sleep is forgotten",
        transitions._sleep_after,
        "interrupted if interrupted and interrupted > now else None",
        "None",
        1,
    ),
    PlantedBug(
        "event missing: a notification is cleared without one",
        MemoryNotifications._clear_row,
        "transaction.insert_events(after.organization_id, events)",
        "pass",
        0,
    ),
    PlantedBug(
        "event out of order: a gap in the ids is not waited for",
        reader.count_settled,
        "event.id - 1 > max(settled, known_until)",
        "False",
        1,
    ),
    PlantedBug(
        "event out of order: the writers behind a gap are taken for finished",
        reader.unfinished,
        "if name in writers or name.startswith(PREPARED)",
        "if False",
        1,
    ),
    PlantedBug(
        "event out of order: a new reader begins before writers have finished",
        reader.EventReader.skip,
        "while writers:",
        "while False:",
        144,
    ),
    PlantedBug(
        "a pause of one agent is ignored",
        decisions.decide,
        "    if facts.is_paused:\n",
        "    if facts.organization_paused:\n",
        5,
    ),
    PlantedBug(
        "event missing: the end of a run writes none",
        updates.record,
        "ended = () if step.end is None else (_end_of_run(facts, step.end, step.actor),)",
        "ended = ()",
        0,
    ),
    PlantedBug(
        "event missing: a sentence changes without one",
        updates.record,
        "digest == (before.why_digest or INITIAL_DIGEST) and not is_told",
        "not is_told",
        2,
    ),
    PlantedBug(
        "event without effect: a refused update writes its events",
        memory_states.update_row,
        "not guard_holds(update, newest):\n",
        "not guard_holds(update, newest):\n"
        "        transaction.insert_events(agent.organization_id, update.events) if agent else None\n",
        0,
    ),
    PlantedBug(
        "nodes: a run that a process does not know is taken for dead",
        View.is_elsewhere,
        "if attendant is None or attendant == self.node_id or not self.is_living(attendant):",
        "if True:",
        0,
    ),
    PlantedBug(
        "nodes: what is overdue starts beside a lingering run",
        attendance.may_take_over,
        "if _has_run(state):",
        "if state.run_id is not None:",
        11,
    ),
    PlantedBug(
        "nodes: a run request starts a run beside a lingering one",
        Supervisor._request_run,
        "facts.state.lingers and context.view.is_elsewhere(facts.state)",
        "False",
        169,
    ),
    PlantedBug(
        "nodes: an update by another node takes the agent from its attendant",
        attendance.attended,
        "if not takes_over and view.is_elsewhere(before):",
        "if False:",
        68,
    ),
    PlantedBug(
        "nodes: a lingering run is not stored",
        Supervisor._step,
        "run is not None and run.may_linger and run.result is None",
        "False",
        11,
    ),
    PlantedBug(
        "nodes: a stop that another node has stored ends no run",
        Supervisor._follow,
        "elif not run.is_stopping and (",
        "elif False and (",
        191,
    ),
    PlantedBug(
        "nodes: nothing makes up for a lost ring",
        Sweep.run_once,
        "if len(self.nodes.living_ids) < 2:",
        "if True:",
        4,
    ),
    PlantedBug(
        "nodes: an agent that another node has started meanwhile is queued",
        Supervisor.reconcile,
        "partial(self._still_due, now=now)",
        "lambda seen: seen.state",
        1001574,
    ),
    PlantedBug(
        "nodes: a free slot takes no queued agent of another node",
        Sweep.run_once,
        "if untaken := self.registry.untaken_slots:",
        "if untaken := 0:",
        70,
    ),
    PlantedBug(
        "nodes: an agent that is taken from a queue keeps its attendant",
        updates.plan_start,
        "node_id=step.view.node_id",
        "node_id=seen.state.node_id or step.view.node_id",
        0,
    ),
    PlantedBug(
        "nodes: each node counts only its own runs of an organization",
        SupervisorContext.claim,
        "if not self.slots.organization_limit:",
        "if True:",
        4,
    ),
    PlantedBug(
        "nodes: a start that was refused for runs of other nodes is never tried again",
        SupervisorContext.give_way,
        "partial(slots.admit, organization_id)",
        "lambda: None",
        252,
    ),
    PlantedBug(
        "nodes: an unconfirmed node calls models",
        ActiveRun.interruptible,
        "if not self._nodes.is_confirmed:",
        "if False:",
        47,
    ),
    PlantedBug(
        "nodes: the runs of a dead node are adopted by nobody",
        DueScan.recover,
        "if nodes.responsible_for(orphan.agent_id) == nodes.node_id",
        "if False",
        5,
    ),
    PlantedBug(
        "nodes: a dead node keeps its share of the agents",
        SimulatedNode.responsible_for,
        "max(self.staying_ids,",
        "max(self._cluster.nodes,",
        1,
    ),
    PlantedBug(
        "a schedule fires twice",
        MemorySchedules._fire_row,
        "row.version != schedule.version",
        "False",
        6,
    ),
    PlantedBug(
        "a schedule misses moments in silence",
        schedules.fall_due,
        "count_missed(schedule, first, latest)",
        "0",
        16,
    ),
    PlantedBug(
        "a merge loses the count",
        schedules._merged_text,
        "{schedule.merged_count + 1}",
        "2",
        6,
    ),
    PlantedBug(
        "a schedule with late_seconds never fires in time",
        schedules._outcome,
        "timedelta(seconds=schedule.late_seconds) + LATE_GRACE",
        "timedelta(seconds=-1)",
        6,
    ),
    PlantedBug(
        "a decision about a call is lost",
        parked_calls.decide,
        "state=CallState.DUE, due_at=now",
        "state=CallState.DUE, due_at=None",
        1,
    ),
    PlantedBug(
        "another decision about a call takes the place of the first",
        parked_calls.decide,
        "if call.state is not CallState.PENDING:",
        "if call.ended_at is not None:",
        9,
    ),
    PlantedBug(
        "a call that was cut off is made again, whatever it does",
        parked_calls.look,
        "call.state is CallState.DUE or call.is_idempotent",
        "True",
        3,
    ),
    PlantedBug(
        "nobody is told that a call has expired",
        parked_calls._end,
        "if call.lost is Lost.AGENT_DELETED else",
        "if call.lost is Lost.AGENT_DELETED or state is CallState.EXPIRED else",
        1,
    ),
    PlantedBug(
        "a grant covers all arguments, whatever its schema says",
        parking.needs_person,
        "covers = schema is None or",
        "covers = True or",
        9,
    ),
    PlantedBug(
        "a grant for exact arguments covers all",
        parked_calls._grant,
        "if terms.is_exact else None,\n        arguments_schema",
        "if False else None,\n        arguments_schema",
        33,
    ),
    PlantedBug(
        "an edited call is made as it was asked for",
        parked_calls.effective_arguments,
        "call.approved_arguments or call.arguments",
        "call.arguments",
        3,
    ),
    PlantedBug(
        "limits: a start that is refused for lack of a slot counts",
        memory_facts.limits,
        "if run.agent_id == agent.id]",
        "if run.agent_id == agent.id] + [at for at in (tables.states[agent.id].queued_at,) if at]",
        13,
    ),
    PlantedBug(
        "limits: the start that fills the limit of an hour is forgotten",
        limits.filled,
        "now - HOUR",
        "now - timedelta(seconds=1)",
        0,
    ),
    PlantedBug(
        "limits: nothing looks again when a limit is renewed",
        transitions.with_next_due,
        "decision.wake, decision.next_at",
        "decision.wake, decision.next_at if decision.held_by is None else None",
        0,
    ),
    PlantedBug(
        "limits: a full day delays until the day after the next",
        limits._limit_at,
        "datetime.combine(today + DAY, time())",
        "datetime.combine(today + 2 * DAY, time())",
        0,
    ),
    PlantedBug(
        "limits: an urgent notification does not pass",
        decisions._delay,
        "if wake.is_urgent:",
        "if False:",
        0,
    ),
    PlantedBug(
        "limits: what an urgent notification has left passes, too",
        decisions._proposed_wakes,
        "WakeCause.RETRY)\n        return",
        "WakeCause.RETRY, is_urgent=any(group.urgent for group in facts.pending))\n        return",
        16,
    ),
    PlantedBug(
        "limits: a queued start does not heed that quiet hours begin",
        Supervisor.reconcile,
        "decision = decide(facts, now, self.context.policy)",
        "decision = decide(facts if facts.state.queued_at is None else"
        " replace(facts, limits=type(facts.limits)()), now, self.context.policy)",
        0,
    ),
)
