"""Events as lines of text."""

from typing import Any

import pytest
from rich.text import Text

from hostsvc.cli.status_screen import COLORS
from hostsvc.cli.tail_lines import TYPE_WIDTH, color_of, event_line
from storage.events.model import EventType

pytestmark = pytest.mark.usefixtures("vienna")

AGENT = "01a1f880-33df-73ec-b86e-a7ed267184ca"
CONTACT = "01a1f880-33df-73ec-b86e-a7ed267184cc"
ORGANIZATION = "01a1f880-33df-73ec-b86e-a7ed267184cb"
DELAY = "2026-11-22T10:00:00.000000Z"


def event(type_: str, resource: dict[str, Any] | None = None, by: str = "", **data: Any) -> dict[str, Any]:
    kind, _, id_ = (by or "service").partition(":")
    return {
        "id": 7,
        "type": type_,
        "at": "2026-11-22T08:30:05.250000Z",
        "organization": ORGANIZATION,
        "agent": AGENT,
        "run": None,
        "resource_id": None,
        "by": {"type": kind, "id": id_ or None},
        "data": data,
        "resource": resource,
    }


def line(name: str = "Grace", **fields: Any) -> Text:
    return event_line(event(**fields), name)


def said(**fields: Any) -> str:
    """Return what follows the name."""
    return line(**fields).plain.partition("  Grace  ")[2]


def test_line_has_local_time_type_name_and_sentence() -> None:
    assert line(type_="agent.asleep", why="Asleep until noon.").plain == (
        f"2026-11-22 09:30:05  {'agent.asleep'.ljust(TYPE_WIDTH)}  Grace  Asleep until noon."
    )


SMS = {"contact": CONTACT, "channel": "sms"}
AWAY = {"url": "https://x.example/", "error": "It was away."}


@pytest.mark.parametrize(
    ("type_", "fields", "sentence"),
    [
        ("agent.created", {"by": "key:7"}, "Created. (by key 7)"),
        ("agent.changed", {"by": "user:8", "fields": ["name", "tags"]}, "Changed name, tags. (by user 8)"),
        ("agent.deleted", {"by": "operator"}, "Deleted. (by the operator)"),
        (
            "run.ended",
            {"outcome": "slept", "turns": 1, "reason": "reminder"},
            "A run woken by a reminder has ended after 1 turn, outcome slept.",
        ),
        (
            "run.ended",
            {"outcome": "failed", "turns": 2, "reason": "run_requested", "error": "No."},
            "A run woken by a run request has ended after 2 turns, outcome failed: No.",
        ),
        (
            "notification.created",
            {"resource": {"title": "Are you\nthere?"}, "source": "sms", "priority": "high", "by": "program"},
            'A high-priority notification from sms: "Are you there?" (by another program)',
        ),
        (
            "notification.created",
            {"source": "system", "priority": "low", "scheduled_for": DELAY, "by": "run:9"},
            "A low-priority notification from system for 2026-11-22 11:00:00 (by run 9)",
        ),
        (
            "notification.changed",
            {"fields": ["title"], "resource": {"title": "Tea"}},
            'Changed title of a notification: "Tea"',
        ),
        ("notification.cleared", {}, "Cleared a notification"),
        ("notification.deleted", {}, "Deleted a notification"),
        ("message.received", SMS, f"A message by sms from {CONTACT} was received."),
        ("message.sent", SMS, f"A message by sms to {CONTACT} was sent."),
        (
            "message.failed",
            {"contact": None, "channel": "email"},
            "A message by email to an unknown contact could not be sent.",
        ),
        (
            "budget.reached",
            {"of": "agent", "cap_usd": 5, "spent_usd": 5.02},
            "The budget of the agent for today is spent: 5.02 of 5 USD.",
        ),
        ("webhook.given_up", AWAY, "A delivery to https://x.example/ was given up: It was away."),
        ("webhook.disabled", AWAY, "The webhook to https://x.example/ was switched off: It was away."),
        ("model.delta", {"turn": 2, "offset": 0, "text": "Hello"}, "Turn 2: Hello"),
        ("agent.promoted", {"rank": 3}, "rank 3"),
    ],
)
def test_sentence_says_what_happened(type_: str, fields: dict[str, Any], sentence: str) -> None:
    assert said(type_=type_, **fields) == sentence


@pytest.mark.parametrize(
    ("type_", "run", "ending"),
    [
        ("agent.asleep", "7", "So."),
        ("agent.stopped", "8", "(by run 7)"),
        ("notification.cleared", "7", "(by run 7)"),
    ],
)
def test_run_is_named_unless_it_changes_its_own_state(type_: str, run: str, ending: str) -> None:
    changed = {**event(type_, by="run:7", why="So."), "run": run}
    assert event_line(changed, "Grace").plain.endswith(ending)


def test_deletion_names_the_agent_that_is_gone() -> None:
    deleted = {**event("agent.deleted", by="key:7"), "data": {"name": "Ada"}}
    assert event_line(deleted, "7").plain.endswith("Deleted Ada. (by key 7)")


def test_event_of_an_organization_names_no_agent() -> None:
    text = line(type_="organization.paused", name="").plain
    assert text.endswith(f"  The organization {ORGANIZATION} is paused.")
    assert line(type_="organization.unpaused", name="").plain.endswith("has ended.")


@pytest.mark.parametrize("type_", EventType)
def test_every_type_has_a_sentence(type_: EventType) -> None:
    data = {"priority": "high", "outcome": "slept", "of": "agent", "cap_usd": 1, "spent_usd": 1, "url": "u"}
    is_state = type_.startswith("agent.") and type_.removeprefix("agent.") not in {"created", "deleted"}
    why = {"why": "So it is."} if is_state or type_ == EventType.RUN_STARTED else {}
    assert len(said(type_=type_, **data, **why)) > 5


@pytest.mark.parametrize("text", ["\x1b[2J", "\x07", "a\nb", "\x9b31m", "\u202e", "\x7f"])
def test_line_prints_no_control_characters(text: str) -> None:
    printed = [
        line(type_="agent.asleep", name=text, why=text),
        line(type_="notification.created", source="sms", priority="high", resource={"title": text}),
        line(type_="run.ended", outcome="failed", turns=1, reason=f"notification:{text}", error=text),
        line(type_=f"new.{text}", key=text, by=f"key:{text}"),
        line(type_="model.delta", turn=1, offset=0, text=text),
    ]
    assert all(each.plain.isprintable() for each in printed)


def test_color_is_that_of_the_phase() -> None:
    assert color_of("agent.backing_off", {}) == COLORS["backing_off"] == "red"
    assert color_of("agent.holding", {}) == "yellow"
    assert color_of("run.started", {}) == "green"
    assert color_of("run.ended", {"error": "No."}) == "red"
    assert color_of("run.ended", {}) == color_of("agent.promoted", {}) == ""
