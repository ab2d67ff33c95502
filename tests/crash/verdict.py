"""The judge: compares what was acknowledged with what is stored, and what ran with what may run.

Each rule is a function from what was recorded to sentences, one for each breach. Nothing here waits.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tests.crash.ledger import Ledger, Note, Owned, RunRequested, Stop

CONVERSATIONAL = frozenset({"email", "sms", "mms", "sms_provider_a", "sms_provider_b"})
RETRIES = frozenset({"restart_recovery", "retry_after_failure", "uncleared_notifications"})


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run as it is stored."""

    id: str
    agent: str
    reason: str
    notifications: tuple[str, ...]  # active at its start
    started_at: datetime
    ended_at: datetime | None
    outcome: str | None


@dataclass(frozen=True, slots=True)
class NoteRow:
    """A notification as it is stored."""

    id: str
    agent: str
    title: str
    source: str
    priority: str
    cleared_at: datetime | None
    activated_at: datetime | None


@dataclass(frozen=True, slots=True)
class StateRow:
    """The state of an agent as it is stored."""

    agent: str
    name: str
    run: str | None
    stopped_at: datetime | None


@dataclass(frozen=True, slots=True)
class Found:
    """The stored rows once all agents are at rest: of agents that were not deleted, but all runs."""

    notes: Mapping[str, NoteRow]
    states: Mapping[str, StateRow]
    runs: Mapping[str, Sequence[RunRow]]  # by agent, in the order of their starts
    late_spans: Sequence[str]  # spans of runs that started after their run had ended
    open_traces: Sequence[str]
    standstill: timedelta  # for so long a run may have gone on without knowing that its sleep was stored


def judge(ledger: Ledger, found: Found) -> list[str]:
    """Return every breach as a sentence."""
    breaches = [
        *overlapping_runs(found),
        *(f"span {span} was begun by a run that was over" for span in found.late_spans),
        *(f"trace {trace} was never ended" for trace in found.open_traces),
        *doubled_notes(ledger, found),
    ]
    for agent in ledger.agents.values():
        runs = found.runs.get(agent.id, ())
        breaches += early_starts(agent, runs)
        breaches += starts_after_a_stop(agent, runs)
        if not (agent.is_deleted or agent.in_doubt == "DELETE"):
            breaches += lost_writes(agent, found)
            breaches += missed_runs(agent, runs, found)
        elif agent.is_deleted:
            breaches += life_after_deletion(agent, runs, found)
    return breaches


def overlapping_runs(found: Found) -> Iterator[str]:
    """Find runs of one agent that overlap, and runs that never ended."""
    for agent, runs in found.runs.items():
        for run, following in zip(runs, [*runs[1:], None], strict=True):
            if run.ended_at is None:
                yield f"run {run.id} of {agent} has no end"
            elif following is not None and following.started_at < run.ended_at:
                yield f"runs {run.id} and {following.id} of {agent} overlap"
    for state in found.states.values():
        if state.run is not None:
            yield f"{state.agent} is in run {state.run} for ever"


def doubled_notes(ledger: Ledger, found: Found) -> Iterator[str]:
    """Find creations that took effect twice, though repeated with their key. System notices do not count."""
    known = ledger.notes()
    for note in found.notes.values():
        if note.id not in known and note.source != "system" and note.agent in ledger.agents:
            yield f"notification {note.id} of {note.agent} was never acknowledged, nor left unanswered"


def lost_writes(agent: Owned, found: Found) -> Iterator[str]:
    """Find acknowledged writes that are lost."""
    state = found.states.get(agent.id)
    if state is None:
        yield f"{agent.id} was created, and is lost"
        return
    if not agent.in_doubt and state.name != agent.name:
        yield f"{agent.id} was renamed {agent.name}, and is {state.name}"
    for note in agent.notes:
        row = found.notes.get(note.id)
        if note.in_doubt == "DELETE":
            continue
        if note.is_deleted:
            if row is not None:
                yield f"notification {note.id} was deleted, and is there"
        elif row is None:
            yield f"notification {note.id} of {agent.id} was acknowledged, and is lost"
        elif not note.in_doubt:
            yield from _changes_lost(note, row)


def _changes_lost(note: Note, row: NoteRow) -> Iterator[str]:
    if (row.title, row.priority) != (note.title, note.priority):
        yield f"the last change of notification {note.id} was acknowledged, and is lost: {row}"
    if note.is_cleared and row.cleared_at is None:
        yield f"notification {note.id} was cleared, and is not"


def missed_runs(agent: Owned, runs: Sequence[RunRow], found: Found) -> Iterator[str]:
    """Find what should have started the agent, and did not."""
    for note in agent.notes:
        row = found.notes.get(note.id)
        if row is None or row.priority != "high":
            continue
        if row.cleared_at is None:
            if not _is_stopped(row, agent, found.states.get(agent.id)):
                yield f"notification {note.id} of {agent.id} waits, and nothing will start the agent"
        elif not (note.is_cleared or note.in_doubt or _run_at(row.cleared_at, runs, found.standstill)):
            yield f"{note} was cleared at {row.cleared_at} by none of {runs}"
    for asked in agent.runs_asked:
        if not _is_met(asked, agent, runs):
            yield f"{agent.id} was asked to run, which was acknowledged ({asked}), and did not"


def _is_met(asked: RunRequested, agent: Owned, runs: Sequence[RunRow]) -> bool:
    if asked.status == "started":
        return any(run.id == asked.run and run.reason == "run_requested" for run in runs)
    if asked.status != "queued" or any(_ends_after(stop, asked.sent_at) for stop in agent.stops):
        return True
    return any(run.started_at >= asked.sent_at for run in runs)


def early_starts(agent: Owned, runs: Sequence[RunRow]) -> Iterator[str]:
    """Find reminders, holds and sleeps that ended early."""
    notes = {note.id: note for note in agent.notes}
    reminders = [at for note in agent.notes for at in note.schedules]
    for run, before in zip(runs, [None, *runs], strict=False):
        seen = [notes[each] for each in run.notifications if each in notes]
        for note in seen:
            # One that was due when it was created is active at once. The statement that stores a start, a
            # moment after its time, sees it.
            due_at = min(note.schedules, default=note.created_at)
            if run.started_at < due_at and note.created_at < due_at:
                yield f"run {run.id} of {agent.id} saw reminder {note.id} before its time"
        if run.reason == "reminder" and not any(at <= run.started_at for at in reminders):
            yield f"run {run.id} of {agent.id} was started by a reminder before any was due"
        if run.reason == "sleep_elapsed" and not any(at <= run.started_at for at in agent.wake_times):
            yield f"run {run.id} of {agent.id} ended a sleep before its time"
        if _is_early_end_of_hold(run, before, agent):
            held = [notes[each] for each in run.notifications]
            yield f"{run} ended a hold of {agent.window_seconds} s before its time, over {held}"


def _is_early_end_of_hold(run: RunRow, before: RunRow | None, agent: Owned) -> bool:
    """Judged where the hold alone can have started the run: nothing else came meanwhile, or went.

    What went may have been there when the agent was looked at: the claim of a run does not ask again. And
    what is seen may have come after that look.
    """
    if run.reason.removeprefix("notification:") not in CONVERSATIONAL:
        return False
    known = {note.id: note for note in agent.notes}
    seen = [known.get(each) for each in run.notifications]
    if not all(note and _is_plain_conversation(note) for note in seen):
        return False
    held = [
        note.created_at
        for note in seen
        if note is not None and (before is None or note.created_at > before.started_at)
    ]
    if not held or run.started_at >= min(held) + timedelta(seconds=agent.window_seconds):
        return False
    meanwhile = [note for note in agent.notes if min(held) <= note.created_at <= run.started_at]
    looked_at, claimed_by = min(*held, run.started_at), run.ended_at or run.started_at
    went = (note for note in agent.notes if note.id not in run.notifications and _may_start(note))
    return all(map(_is_plain_conversation, meanwhile)) and not any(
        write.may_be_within(looked_at, claimed_by) for note in went for write in note.writes
    )


def _may_start(note: Note) -> bool:
    return note.priority == "high" or note.is_changed


def _is_plain_conversation(note: Note) -> bool:
    return note.source in CONVERSATIONAL and note.is_settled and not (note.is_changed or note.is_cleared)


def starts_after_a_stop(agent: Owned, runs: Sequence[RunRow]) -> Iterator[str]:
    """Find runs that went on, or were retried, after a stop."""
    starts = [run.started_at for run in runs]
    for stop in agent.stops:
        if stop.answered_at is None or stop.status == "not_running":
            continue
        following = bisect_right(starts, stop.answered_at)
        if stop.status == "stopped" and following:
            last = runs[following - 1]
            if last.started_at < stop.sent_at and (last.ended_at is None or last.ended_at > stop.answered_at):
                yield f"run {last.id} of {agent.id} was said to be stopped, and went on"
        nothing_between = not following or runs[following - 1].started_at < stop.sent_at
        if nothing_between and following < len(runs) and runs[following].reason in RETRIES:
            yield f"run {runs[following].id} of {agent.id} retries what was stopped at {stop.answered_at}"


def life_after_deletion(agent: Owned, runs: Sequence[RunRow], found: Found) -> Iterator[str]:
    if agent.id in found.states:
        yield f"{agent.id} was deleted, and is there"
    for run in runs:
        if agent.deleted_at is not None and run.started_at > agent.deleted_at:
            yield f"run {run.id} of {agent.id} began when the agent was deleted"


def _run_at(moment: datetime, runs: Collection[RunRow], longer: timedelta) -> bool:
    return any(
        run.started_at <= moment and (run.ended_at is None or moment <= run.ended_at + longer) for run in runs
    )


def _is_stopped(row: NoteRow, agent: Owned, state: StateRow | None) -> bool:
    """Return whether a stop that the client sent keeps this from starting the agent."""
    if state is None or state.stopped_at is None or row.activated_at is None:
        return False
    stopped_at = state.stopped_at
    return row.activated_at <= stopped_at and any(
        stop.sent_at <= stopped_at and (stop.answered_at is None or stopped_at <= stop.answered_at)
        for stop in agent.stops
    )


def _ends_after(stop: Stop, moment: datetime) -> bool:
    return stop.answered_at is None or stop.answered_at > moment
