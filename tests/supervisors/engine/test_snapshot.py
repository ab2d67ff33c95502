"""The fields of a snapshot and of the overview, which the status endpoints serve by these names."""

from dataclasses import fields

import pytest

from supervisors.engine.snapshot import (
    CurrentRun,
    DebounceResponse,
    FailuresResponse,
    MailboxResponse,
    NextWake,
    RecentMessage,
    Snapshot,
    SupervisorsResponse,
    TimersResponse,
)

SNAPSHOT = (
    "agent name organization status phase since why next_wake run debounce blockers mailbox failures recent "
    "node"
)


@pytest.mark.parametrize(
    ("response", "names"),
    [
        (Snapshot, SNAPSHOT),
        (NextWake, "at because"),
        (CurrentRun, "id trace started_at turn max_sleep_until"),
        (DebounceResponse, "window_seconds first_at last_at due_at"),
        (MailboxResponse, "depth limit"),
        (FailuresResponse, "consecutive last_error retry_at"),
        (RecentMessage, "at message outcome"),
        (SupervisorsResponse, "active by_phase mailbox restarts quarantined"),
        (TimersResponse, "pending next_due_at lateness_ms"),
    ],
)
def test_response_has_the_fields_of_the_interface(response: type, names: str) -> None:
    assert [field.name for field in fields(response)] == names.split()
