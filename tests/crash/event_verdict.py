"""The judge of the event log: every acknowledged write has its event, and no event lacks its effect."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.crash.ledger import Ledger, Owned
from tests.crash.verdict import Found


@dataclass(frozen=True, slots=True)
class EventRow:
    """An event as it is stored."""

    id: int
    type: str
    agent: str | None
    run: str | None
    resource: str | None


def judge_events(ledger: Ledger, found: Found, events: Sequence[EventRow]) -> list[str]:
    """Return every breach as a sentence. The events are in the order of their ids."""
    counts = Counter((event.type, event.resource or event.run or event.agent) for event in events)
    breaches = list(_wrong_runs(found, events, counts))
    for agent in ledger.agents.values():
        breaches += _missing_events(agent, counts)
    breaches += _events_without_effect(ledger, found, events, counts)
    return breaches


def _wrong_runs(
    found: Found, events: Sequence[EventRow], counts: Mapping[tuple[str, str | None], int]
) -> Iterator[str]:
    """Find runs that are not started and ended once by the log.

    The deletion of an agent ends its run, and retention removes its runs.
    """
    known = {run.id for runs in found.runs.values() for run in runs}
    for agent_id, runs in found.runs.items():
        for run in runs:
            if counts["run.started", run.id] != 1:
                yield f"run {run.id} was started {counts['run.started', run.id]} times by the log"
            if counts["run.ended", run.id] != 1 and not counts["agent.deleted", agent_id]:
                yield f"run {run.id} was ended {counts['run.ended', run.id]} times by the log"
    for event in events:
        is_of_run = event.type in {"run.started", "run.ended"}
        if is_of_run and event.run not in known and not counts["agent.deleted", event.agent]:
            yield f"{event}: there is no such run"


def _missing_events(agent: Owned, counts: Mapping[tuple[str, str | None], int]) -> Iterator[str]:
    if agent.is_deleted and counts["agent.deleted", agent.id] != 1:
        yield f"{agent.id} was deleted {counts['agent.deleted', agent.id]} times by the log"
    for note in agent.notes:
        if counts["notification.created", note.id] != 1:
            times = counts["notification.created", note.id]
            yield f"notification {note.id} was created {times} times by the log"
        if note.is_cleared and not counts["notification.cleared", note.id]:
            yield f"notification {note.id} was cleared, and no event says so"
        if note.is_deleted and counts["notification.deleted", note.id] != 1:
            yield f"notification {note.id} was deleted, and the log does not say so once"


def _events_without_effect(
    ledger: Ledger, found: Found, events: Sequence[EventRow], counts: Mapping[tuple[str, str | None], int]
) -> Iterator[str]:
    for event in events:
        if event.type != "notification.created" or event.agent not in ledger.agents:
            continue
        is_gone = counts["notification.deleted", event.resource] or counts["agent.deleted", event.agent]
        if event.resource not in found.notes and not is_gone:
            yield f"event {event.id} created notification {event.resource}, which is not there"
    for note in found.notes.values():
        if note.agent not in ledger.agents:
            continue
        if note.cleared_at is not None and not counts["notification.cleared", note.id]:
            yield f"notification {note.id} is cleared, and no event says so"
        if counts["notification.deleted", note.id]:
            yield f"notification {note.id} was deleted by the log, and is there"
