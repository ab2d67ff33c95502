"""Responses in JSON."""

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import pytest

from web.json import fit, json_response, to_json


class DriverUuid(UUID):
    """An id as the database's driver returns it."""


@dataclass
class Point:
    x: int


def test_values_of_the_interface_are_written() -> None:
    eastward = datetime(2026, 11, 21, 10, tzinfo=timezone(timedelta(hours=1)))
    text = "01890a5d-ac96-774b-bcce-b302099a8057"
    value = [Point(1), UUID(text), DriverUuid(text), Decimal("0.1"), eastward, {1: "ü"}]
    assert to_json(value).decode() == (
        f'[{{"x":1}},"{text}","{text}",0.1,"2026-11-21T09:00:00.000000Z",{{"1":"ü"}}]'
    )


def test_other_types_are_refused() -> None:
    with pytest.raises(TypeError):
        to_json(object())


def test_response_has_status_and_headers() -> None:
    response = json_response({"a": 1}, 201, {"X-Mine": "yes"})
    assert (response.status, response.body, response.headers["X-Mine"]) == (201, b'{"a":1}', "yes")
    assert response.content_type == "application/json"


def test_fit_returns_the_items_that_take_the_bytes() -> None:
    items = [{"a": 1}, "é", [1, 2]]
    whole = to_json(items)
    assert to_json(fit(items, len(whole))) == whole
    assert to_json(fit(items, len(whole) - 1)) == to_json(items[:2])
    assert to_json(fit(items, 1)) == to_json(items[:1])
    assert fit([], 1) == []
