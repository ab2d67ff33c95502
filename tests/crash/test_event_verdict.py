"""The judge of the event log finds each kind of breach."""

import pytest

from tests.crash.event_verdict import EventRow, judge_events
from tests.crash.test_verdict import history


def log() -> list[EventRow]:
    """Return the events of `history`."""
    events: list[tuple[str, str | None, str | None]]
    events = [("notification.created", None, "text"), ("notification.created", None, "reminder")]
    for run in ("held", "asked", "due"):
        events += [("run.started", run, None), ("run.ended", run, None)]
    events += [("notification.cleared", "held", "text"), ("notification.cleared", "due", "reminder")]
    return [EventRow(id_, type_, "clerk", run, of) for id_, (type_, run, of) in enumerate(events, start=1)]


def test_complete_log_has_no_breach() -> None:
    assert judge_events(*history(), log()) == []


@pytest.mark.parametrize("missing", range(8))
def test_judge_finds_missing_event(missing: int) -> None:
    events = log()
    del events[missing]

    assert judge_events(*history(), events)


@pytest.mark.parametrize(
    "event",
    [
        EventRow(99, "notification.created", "clerk", None, "never"),
        EventRow(99, "notification.created", "clerk", None, "text"),
        EventRow(99, "notification.deleted", "clerk", None, "text"),
        EventRow(99, "run.started", "clerk", "never", None),
        EventRow(99, "run.ended", "clerk", "held", None),
    ],
    ids=lambda event: f"{event.type} {event.resource or event.run}",
)
def test_judge_finds_event_without_effect(event: EventRow) -> None:
    assert judge_events(*history(), [*log(), event])
