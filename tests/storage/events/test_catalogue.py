"""Patterns of event types select exact types and families."""

import pytest

from storage.events.model import EventType, nearest_pattern, patterns_of, selected_types

TYPES = tuple(EventType)


def test_patterns_are_all_types_and_families() -> None:
    assert patterns_of(("run.started", "run.ended", "agent.created")) == (
        *("run.started", "run.ended", "agent.created"),
        *("run.*", "agent.*"),
    )


def test_family_selects_its_types_only() -> None:
    assert selected_types(["run.*"], TYPES) == {"run.started", "run.ended"}
    assert selected_types(["run.ended", "budget.*"], TYPES) == {"run.ended", "budget.reached"}


def test_no_patterns_select_all_types() -> None:
    assert selected_types([], TYPES) == frozenset(TYPES)


@pytest.mark.parametrize(
    ("text", "nearest"),
    [("run.endd", "run.ended"), ("RUN.*", "run.*"), ("message.recieved", "message.received")],
)
def test_nearest_pattern_is_found(text: str, nearest: str) -> None:
    assert nearest_pattern(text, TYPES) == nearest
