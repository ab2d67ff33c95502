"""The log of pauses: each is told once, with the caller if a client of this process made it."""

from collections.abc import Iterable
from uuid import UUID

from structlog.testing import capture_logs

from storage.ids import new_id
from supervisors.engine.pause_log import PauseLog

CALLER = "key:0"


def told(log: PauseLog, *changes: tuple[UUID, bool]) -> list[tuple[str, str]]:
    """Report the changes of a caller; return the events and callers that were logged."""
    with capture_logs() as logged:
        for organization_id, is_paused in changes:
            log.report(organization_id, is_paused=is_paused, caller=CALLER)
    return [(line["event"], line["caller"]) for line in logged]


def told_of_rest(log: PauseLog, paused: Iterable[UUID], before: Iterable[UUID]) -> list[tuple[str, str]]:
    with capture_logs() as logged:
        log.report_rest(frozenset(paused), frozenset(before))
    return [(line["event"], line["caller"]) for line in logged]


def test_change_of_a_client_is_told_at_once_and_once() -> None:
    log, organization_id = PauseLog(), new_id()
    assert told(log, (organization_id, True), (organization_id, True), (organization_id, False)) == [
        ("organization paused", CALLER),
        ("organization resumed", CALLER),
    ]
    assert told_of_rest(log, paused=(), before=()) == []


def test_change_of_nobody_is_the_operators() -> None:
    log, organization_id = PauseLog(), new_id()
    assert told_of_rest(log, [organization_id], log.paused) == [("organization paused", "operator")]
    assert told_of_rest(log, [organization_id], log.paused) == []
    assert told_of_rest(log, [], log.paused) == [("organization resumed", "operator")]


def test_pause_from_before_the_start_is_not_told() -> None:
    log, organization_id = PauseLog(), new_id()
    log.begin({organization_id})
    assert told_of_rest(log, [organization_id], log.paused) == []


def test_change_during_the_reading_of_pauses_is_not_undone() -> None:
    log, organization_id = PauseLog(), new_id()
    before = log.paused
    assert told(log, (organization_id, True)) == [("organization paused", CALLER)]
    assert told_of_rest(log, paused=(), before=before) == []
