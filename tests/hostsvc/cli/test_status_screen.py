"""The status screens, rendered from API responses."""

from collections.abc import Sequence
from io import StringIO
from typing import Any

import pytest
from rich.console import Console, RenderableType

from hostsvc.cli.status_screen import (
    COLORS,
    agent_screen,
    duration,
    past_screen,
    service_screen,
)
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
        "node": None,
    }
    return {**defaults, **fields}


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.4, "0 s"), (59, "59 s"), (61, "1 min 1 s"), (7_260, "2 h 1 min"), (90_000, "1 d 1 h")],
)
def test_duration_has_at_most_two_units(seconds: float, expected: str) -> None:
    assert duration(seconds) == expected


def test_agent_screen_omits_what_is_missing() -> None:
    assert printed(agent_screen(snapshot())).endswith(
        "phase asleep since 2026-11-20 10:28:36 UTC why Asleep until something wakes it. "
        "next wake nothing is set mailbox no unanswered requests of at most 256"
    )


def test_agent_screen_contains_run_and_failures() -> None:
    run = {"id": "4711", "turn": 3, "max_sleep_until": "2026-11-20T18:28:36Z"}
    failures = {"consecutive": 2, "last_error": "away\x1b[31m\n", "retry_at": None}

    text = printed(agent_screen(snapshot(phase="running", run=run, failures=failures)))

    assert "run 4711 turn 3, may sleep until 2026-11-20 18:28:36 UTC" in text
    assert "failures 2 in a row, the last: away·[31m·" in text


def test_agent_screen_omits_what_is_not_known() -> None:
    run = {"id": "4711", "turn": 0, "max_sleep_until": None}
    failures = {"consecutive": 1, "last_error": "away", "retry_at": None}
    text = printed(agent_screen(snapshot(phase="running", since=None, run=run, failures=failures)))
    assert "phase running why" in text
    assert "run 4711 may sleep for any time failures the last run: away mailbox" in text


def node_status(**fields: Any) -> dict[str, Any]:
    return {
        "name": "web/1",
        "version": "0.2.0",
        "state": "alive",
        "agents": 3,
        "runs": 1,
        "free_slots": 49,
        "queued": 0,
        "lag_ms": None,
        "confirmed_seconds": 0.3,
        **fields,
    }


def service_status(
    *,
    agents: int = 0,
    trouble: int = 0,
    requests: int = 0,
    timers: tuple[int, str | None] = (0, None),
    connections: int = 1,
    oldest: float | None = None,
    nodes: Sequence[dict[str, Any]] = ({},),
    ended: Sequence[int] = (),
) -> dict[str, Any]:
    spread = {"p50": None, "p99": None, "max": None}
    return {
        "service": {"version": "0.1.0", "uptime_seconds": 61, "state": "ready", "reasons": []},
        "agents": {"running": agents, "sleeping": agents, "archived": agents},
        "runs": {"running": agents, "limit": 100, "queued": agents},
        "supervisors": {
            "active": agents,
            "by_phase": {"running": agents} if agents else {},
            "quarantined": trouble,
            "restarts": trouble,
            "mailbox": {"depth": requests, "deepest": requests},
        },
        "quarantined": [
            {"agent": "4711", "name": "Ada", "until": DUE, "last_error": "no\nmodel"} for _ in range(trouble)
        ],
        "timers": {"pending": timers[0], "next_due_at": timers[1], "lateness_ms": spread},
        "loop_lag_ms": spread,
        "database": {"connections": connections, "idle": connections, "waiting": requests},
        "oldest_uncleared_high_seconds": oldest,
        "nodes": [node_status(**fields) for fields in nodes],
        "ended_nodes": [{"interrupted_runs": runs} for runs in ended],
    }


NONE = """\
hostsvc 0.1.0, up for 1 min 1 s
state ready
nodes 1
agents 0 running, 0 sleeping, 0 archived
runs 0 active of at most 100
supervisors none in memory
trouble none
mailboxes no unanswered requests
timers none set
lateness timers not measured yet; event loop not measured yet
database no connections
No agents to show.
"""
ONE = """\
hostsvc 0.1.0, up for 1 min 1 s
state ready
nodes 1
agents 1 running, 1 sleeping, 1 archived
runs 1 active of at most 100; 1 agent waiting for a slot
supervisors 1 in memory: 1 running
trouble 1 agent quarantined, 1 supervisor restarted after a crash
quarantined 4711 Ada until 2026-11-20 10:28:36 UTC: no·model
mailboxes 1 unanswered request
timers 1 set, for 2026-11-20 10:28:36 UTC
lateness timers not measured yet; event loop not measured yet
database 1 connection, 1 idle, 1 request waiting for one
oldest a high-priority notification has been uncleared for 1 min 1 s
No agents to show.
"""
MANY = """\
hostsvc 0.1.0, up for 1 min 1 s
state ready
nodes 1
agents 2 running, 2 sleeping, 2 archived
runs 2 active of at most 100; 2 agents waiting for a slot
supervisors 2 in memory: 2 running
trouble 2 agents quarantined, 2 supervisors restarted after a crash
quarantined 4711 Ada until 2026-11-20 10:28:36 UTC: no·model
quarantined 4711 Ada until 2026-11-20 10:28:36 UTC: no·model
mailboxes 2 unanswered requests, at most 2 to one agent
timers 2 set, the next for 2026-11-20 10:28:36 UTC
lateness timers not measured yet; event loop not measured yet
database 2 connections, 2 idle, 2 requests waiting for one
oldest a high-priority notification has been uncleared for 1 min 1 s
No agents to show.
"""
DUE = "2026-11-20T10:28:36Z"


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (service_status(connections=0), NONE),
        (service_status(agents=1, trouble=1, requests=1, timers=(1, DUE), oldest=61), ONE),
        (
            service_status(agents=2, trouble=2, requests=2, timers=(2, DUE), connections=2, oldest=61),
            MANY,
        ),
    ],
)
def test_service_screen_is_english_for_none_one_and_many(status: dict[str, Any], expected: str) -> None:
    assert printed(service_screen(status, [], 20)) == " ".join(expected.split())


def test_service_screen_has_a_line_for_each_of_several_nodes() -> None:
    other: dict[str, Any] = {"name": "web/2", "queued": 7, "lag_ms": 1.5, "confirmed_seconds": 4.0}
    nodes: list[dict[str, Any]] = [{}, other]
    text = printed(service_screen(service_status(nodes=nodes, ended=(0, 2)), [], 20))
    assert "nodes 2; 2 ended within a day with 2 interrupted runs" in text
    assert "web/1 0.2.0 alive 3 1 49 0" in text
    assert "web/2 0.2.0 alive, silent for 4 s 3 1 49 7 1.5 ms" in text


def test_agent_screen_names_the_node_that_attends() -> None:
    assert "node web/2 mailbox" in printed(agent_screen(snapshot(node="web/2")))


@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_id_is_broken_on_a_narrow_terminal(width: int) -> None:
    wake = {"at": DUE, "because": "A reminder falls due."}
    agent = snapshot(
        name="Grace " * 20,
        why="It waits. " * 20,
        next_wake=wake,
        phase="backing_off",
        run={"id": "01a1f880-33df-73ec-b86e-a7ed267184cc", "turn": 3, "max_sleep_until": DUE},
        blockers=[f"01a1f880-33df-73ec-b86e-a7ed267184{number}" for number in range(10, 20)],
    )
    for screen in (agent_screen(agent), service_screen(service_status(), [agent], 20)):
        output = StringIO()
        Console(width=width, file=output).print(screen)
        text = output.getvalue()
        assert agent["agent"] in text
        assert ("uncleared" in text) == all(blocker in text for blocker in agent["blockers"])
        assert max(map(len, text.splitlines())) <= max(width, 70)


def test_colors_belong_to_known_phases_and_states() -> None:
    assert {*COLORS} <= {*Phase, *ServiceState}


def past_snapshot(**fields: Any) -> dict[str, Any]:
    return snapshot() | {
        "at": "2026-11-21T03:00:00.000000Z",
        "since": "2026-11-21T02:00:00.000000Z",
        "why": "Asleep until something woke it.",
        "next_wake_at": "2026-11-21T08:00:00.000000Z",
        "event": 12,
        **fields,
    }


def test_past_screen_names_moment_next_wake_and_event() -> None:
    assert printed(past_screen(past_snapshot())).endswith(
        "at 2026-11-21 03:00:00 UTC phase asleep since 2026-11-21 02:00:00 UTC "
        "why Asleep until something woke it. next wake 2026-11-21 08:00:00 UTC event 12"
    )


def test_past_screen_says_what_is_not_known() -> None:
    gone = past_snapshot(phase="unknown", since=None, next_wake_at=None, event=None, why="Not known.")
    without_sentence = past_snapshot(why=None, next_wake_at=None, event=None)

    assert printed(past_screen(gone)).endswith("phase unknown why Not known.")
    assert printed(past_screen(without_sentence)).endswith(
        "why not known: the event that said it is no longer kept next wake nothing was set"
    )
