"""The judge of the crash tests finds each kind of breach."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.crash.ledger import Ledger, Note, Owned, RunRequested, Stop, Write
from tests.crash.verdict import Found, NoteRow, RunRow, StateRow, judge

Tamper = Callable[[Owned, Found], Found]


def at(second: float) -> datetime:
    return datetime(2026, 11, 20, tzinfo=UTC) + timedelta(seconds=second)


def history() -> tuple[Ledger, Found]:
    """Return a text that was held for 2 s, a run request and a reminder with their runs; then a stop."""
    text = Note("text", "clerk", "Hello", "sms", "high", at(0))
    reminder = Note("reminder", "clerk", "Up!", "portal", "high", at(5), schedules=[at(20)])
    agent = Owned("clerk", "Clerk", window_seconds=2, notes=[text, reminder])
    agent.runs_asked.append(RunRequested(at(10), "started", "asked"))
    agent.stops.append(Stop(at(22), at(23), "stopped"))
    ledger = Ledger()
    ledger.agents["clerk"] = agent
    runs = [
        RunRow("held", "clerk", "notification:sms", ("text",), at(2), at(3), "slept"),
        RunRow("asked", "clerk", "run_requested", (), at(10), at(11), "slept"),
        RunRow("due", "clerk", "reminder", ("reminder",), at(20), at(22.5), "stopped"),
    ]
    notes = [
        NoteRow("text", "clerk", "Hello", "sms", "high", at(2.5), None),
        NoteRow("reminder", "clerk", "Up!", "portal", "high", at(20.5), None),
    ]
    found = Found(
        notes={note.id: note for note in notes},
        states={"clerk": StateRow("clerk", "Clerk", None, at(22.5))},
        runs={"clerk": runs},
        late_spans=[],
        open_traces=[],
    )
    return ledger, found


def note(found: Found, which: str, **fields: Any) -> Found:
    return replace(found, notes={**found.notes, which: replace(found.notes[which], **fields)})


def run(found: Found, which: str, **fields: Any) -> Found:
    runs = [replace(each, **fields) if each.id == which else each for each in found.runs["clerk"]]
    return replace(found, runs={"clerk": runs})


def renamed(agent: Owned, found: Found) -> Found:
    agent.name = "Secretary"
    return found


def deleted(agent: Owned, found: Found) -> Found:
    agent.notes[0].is_deleted = True
    return found


def retried(_: Owned, found: Found) -> Found:
    retry = RunRow("retry", "clerk", "retry_after_failure", (), at(30), at(31), "slept")
    return replace(found, runs={"clerk": [*found.runs["clerk"], retry]})


def without_run(_: Owned, found: Found) -> Found:
    return replace(found, runs={"clerk": [each for each in found.runs["clerk"] if each.id != "asked"]})


TAMPERED: dict[str, tuple[str, Tamper]] = {
    "a lost note": ("is lost", lambda _, found: replace(found, notes={"reminder": found.notes["reminder"]})),
    "a lost agent": ("is lost", lambda _, found: replace(found, states={})),
    "a lost change": ("is lost", lambda _, found: note(found, "text", title="Other")),
    "a lost name": ("was renamed", renamed),
    "a lost deletion": ("was deleted, and is there", deleted),
    "a doubled note": (
        "was never acknowledged",
        lambda _, found: replace(
            found, notes={**found.notes, "twin": replace(found.notes["text"], id="twin")}
        ),
    ),
    "a missed run": (
        "nothing will start",
        lambda _, found: note(found, "text", cleared_at=None, activated_at=at(24)),
    ),
    "a note cleared outside of runs": ("by no run", lambda _, found: note(found, "text", cleared_at=at(5))),
    "a run request that was forgotten": ("was asked to run", without_run),
    "overlapping runs": ("overlap", lambda _, found: run(found, "held", ended_at=at(10.5))),
    "a run without an end": ("has no end", lambda _, found: run(found, "due", ended_at=None)),
    "an early reminder": ("before its time", lambda _, found: run(found, "due", started_at=at(19.9))),
    "an early end of a hold": ("before its time", lambda _, found: run(found, "held", started_at=at(1.9))),
    "a stopped run that goes on": ("went on", lambda _, found: run(found, "due", ended_at=at(24))),
    "a retry after a stop": ("retries what was stopped", retried),
    "a span of a run that was over": ("was over", lambda _, found: replace(found, late_spans=["span"])),
}


def test_correct_history_has_no_breach() -> None:
    assert judge(*history()) == []


@pytest.mark.parametrize("what", TAMPERED)
def test_judge_finds_breach(what: str) -> None:
    ledger, found = history()
    sentence, tamper = TAMPERED[what]

    breaches = judge(ledger, tamper(ledger.agents["clerk"], found))

    assert any(sentence in breach for breach in breaches), breaches


def test_deleted_notification_may_have_ended_a_hold() -> None:
    ledger, found = history_with_another_note(priority="high", write=Write(at(1.85), at(1.95)))

    assert judge(ledger, run(found, "held", started_at=at(1.9))) == []


def test_notification_deleted_during_a_claim_may_start_a_run() -> None:
    ledger, found = history_with_another_note(priority="high", write=Write(at(-0.03), at(-0.01)))

    assert judge(ledger, run(found, "held", started_at=at(-0.04))) == []


@pytest.mark.parametrize(
    ("priority", "write"),
    [("low", Write(at(1.85), at(1.95))), ("high", Write(at(-0.5), at(-0.1))), ("high", Write(at(-11)))],
    ids=["a low note was deleted", "it was deleted before", "its deletion was never answered, long before"],
)
def test_early_end_of_hold_is_found(priority: str, write: Write) -> None:
    ledger, found = history_with_another_note(priority, write)

    [breach] = judge(ledger, run(found, "held", started_at=at(1.9)))

    assert "ended a hold of 2 s before its time" in breach


def history_with_another_note(priority: str, write: Write) -> tuple[Ledger, Found]:
    """Return `history` with a notification that is not held, before the text, and its deletion."""
    ledger, found = history()
    other = Note("other", "clerk", "Never mind", "api", priority, at(-20), is_deleted=True, writes=[write])
    ledger.agents["clerk"].notes.append(other)
    return ledger, found
