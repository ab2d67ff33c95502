"""Positions in sorted lists: what is written is read again, and anything else is refused."""

from base64 import urlsafe_b64encode
from decimal import Decimal
from typing import Any
from uuid import uuid4

import orjson
import pytest

from storage.agents.filters import AgentSort, Position, Value
from tests.storage.factories import NOW
from web.api.supervision.supervisors import read_position, write_position
from web.errors import Invalid
from web.fields import MAX_MONEY

VALUES: list[tuple[AgentSort, Value | None]] = [
    (AgentSort.NEWEST, None),
    (AgentSort.NAME, "ängström 😀"),
    (AgentSort.NAME, ""),
    (AgentSort.NEXT_WAKE, NOW),
    (AgentSort.NEXT_WAKE, None),
    (AgentSort.COST, Decimal("12.345678")),
    (AgentSort.COST, 2 * MAX_MONEY),
    (AgentSort.UNCLEARED, 7),
]
ID, MOMENT = "01a20591-9c04-76bf-82ea-dec89d3a165a", NOW.isoformat()
BROKEN: list[tuple[AgentSort, Any]] = [
    (AgentSort.NAME, ["a", MOMENT]),
    (AgentSort.NAME, {"a": 1}),
    (AgentSort.NAME, ["a\x00", MOMENT, ID]),
    (AgentSort.NAME, ["a", "yesterday", ID]),
    (AgentSort.NAME, ["a", MOMENT, "7"]),
    (AgentSort.NEWEST, ["a", MOMENT, ID]),
    (AgentSort.NEXT_WAKE, ["soon", MOMENT, ID]),
    (AgentSort.NEXT_WAKE, ["0001-01-01T00:00:00+14:00", MOMENT, ID]),
    (AgentSort.NAME, ["a", "9999-12-31T23:59:59-14:00", ID]),
    (AgentSort.COST, ["NaN", MOMENT, ID]),
    (AgentSort.COST, ["1E999999", MOMENT, ID]),
    (AgentSort.COST, ["1E-999999", MOMENT, ID]),
    (AgentSort.COST, ["much", MOMENT, ID]),
    (AgentSort.UNCLEARED, ["99999999999999999999", MOMENT, ID]),
    (AgentSort.UNCLEARED, ["1.5", MOMENT, ID]),
]


@pytest.mark.parametrize(("sort", "value"), VALUES)
def test_position_is_read_as_it_was_written(sort: AgentSort, value: Value | None) -> None:
    position = Position(value, NOW, uuid4())
    assert read_position(write_position(position), sort) == position


@pytest.mark.parametrize(("sort", "parts"), BROKEN)
def test_position_of_another_list_is_refused(sort: AgentSort, parts: Any) -> None:
    with pytest.raises(Invalid):
        read_position(urlsafe_b64encode(orjson.dumps(parts)).decode(), sort)


@pytest.mark.parametrize("text", ["", "x", "é", "====", "AAAA", ID])
def test_text_that_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        read_position(text, AgentSort.NAME)
