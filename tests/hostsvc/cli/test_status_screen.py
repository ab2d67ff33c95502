"""The status screens, rendered from API responses."""

from io import StringIO
from typing import Any

import pytest
from rich.console import Console, RenderableType

from hostsvc.cli.status_screen import COLORS, agent_screen, duration, moment, service_screen
from supervisors.policy.phases import Phase
from web.ports import ServiceState


def printed(screen: RenderableType) -> str:
    """Return the printed text with whitespace collapsed."""
    output = StringIO()
    Console(width=200, file=output).print(screen)
    return " ".join(output.getvalue().split())


def snapshot(**fields: Any) -> dict[str, Any]:
    defaults: dict[str, Any] = {
        "agent": "01a1f880-33df-73ec-b86e-a7ed267184ca",
        "name": "Grace",
        "organization": "01a1f880-33df-73ec-b86e-a7ed267184cb",
        "phase": "asleep",
        "since": "2026-11-20T10:28:36.013826Z",
        "why": "Asleep until something wakes it.",
        "next_wake": None,
        "run": None,
        "blockers": [],
        "mailbox": {"depth": 0, "limit": 256},
        "failures": {"consecutive": 0, "last_error": "", "retry_at": None},
        "recent": [],
    }
    return {**defaults, **fields}


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.4, "0 s"), (59, "59 s"), (61, "1 min 1 s"), (7_260, "2 h 1 min"), (90_000, "1 d 1 h")],
)
def test_duration_has_at_most_two_units(seconds: float, expected: str) -> None:
    assert duration(seconds) == expected


def test_agent_screen_omits_unknown_start_of_phase() -> None:
    assert "phase paused why" in printed(agent_screen(snapshot(phase="paused", since=None)))


def test_moment_is_formatted_to_the_second() -> None:
    assert moment("2026-11-20T10:28:36.013826Z") == "2026-11-20 10:28:36"
    assert moment(None) == "none"


def test_agent_screen_omits_what_is_missing() -> None:
    assert printed(agent_screen(snapshot())).endswith(
        "phase asleep since 2026-11-20 10:28:36 UTC why Asleep until something wakes it. "
        "next wake none mailbox 0 of at most 256 messages"
    )


def test_agent_screen_contains_run_and_failures() -> None:
    run = {"id": "4711", "turn": 3, "max_sleep_until": "2026-11-20T18:28:36Z"}
    failures = {"consecutive": 2, "last_error": "away\x1b[31m\n", "retry_at": None}

    text = printed(agent_screen(snapshot(phase="running", run=run, failures=failures)))

    assert "run 4711, turn 3, may sleep until 2026-11-20 18:28:36" in text
    assert "failures 2 in a row, the last: away·[31m·" in text


@pytest.mark.parametrize(
    ("pending", "next_due_at", "expected"),
    [
        (0, None, "timers 0 set lateness"),
        (2, "2026-11-20T10:28:36Z", "2 set, the next for 2026-11-20 10:28:36 UTC"),
    ],
)
def test_service_screen_shows_next_timer_if_there_is_one(
    pending: int, next_due_at: str | None, expected: str
) -> None:
    spread = {"p50": None, "p99": None, "max": None}
    status = {
        "service": {"version": "0.1.0", "uptime_seconds": 61, "state": "ready", "reasons": []},
        "agents": {"running": 0, "sleeping": pending, "archived": 0},
        "runs": {"running": 0, "limit": 100, "queued": 0},
        "supervisors": {
            "active": 0,
            "by_phase": {},
            "quarantined": 0,
            "restarts": 0,
            "mailbox": {"depth": 3, "deepest": 2},
        },
        "timers": {"pending": pending, "next_due_at": next_due_at, "lateness_ms": spread},
        "loop_lag_ms": spread,
        "database": {"connections": 1, "idle": 1, "waiting": 0},
        "oldest_uncleared_high_seconds": None,
    }
    text = printed(service_screen(status, [], 20))
    assert expected in text
    assert "mailboxes 3 messages, at most 2 in one" in text


def test_colors_belong_to_known_phases_and_states() -> None:
    assert {*COLORS} <= {*Phase, *ServiceState}
