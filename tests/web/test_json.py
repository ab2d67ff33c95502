"""Answers in JSON: how values are written, and which attributes or columns they show."""

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, TypedDict
from uuid import UUID

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.ids import new_id
from storage.postgres.pool import Pool
from supervisors.text import format_timestamp
from web.json import EXACT, Serializer, _plain, fit, json_response, to_json


class DriverUuid(UUID):
    """An id as the database's driver returns it."""


TEXTS = st.sampled_from(
    ["", "Z", 'Z"', "09:00:00Z", "2026-11-21T09:00:00Z", ".000000Z", '.1234567Z"', "é\u2028"]
)
MOMENTS = st.datetimes(timezones=st.just(UTC)) | st.builds(
    lambda moment: moment.replace(microsecond=0), st.datetimes(timezones=st.just(UTC))
)
SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | TEXTS | MOMENTS | st.uuids()
VALUES = st.recursive(
    SCALARS | st.decimals(0, 10**6, places=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS | st.integers(0, 9), inner, max_size=4),
    max_leaves=12,
)


@dataclass
class Point:
    x: int


def test_values_of_the_interface_are_written() -> None:
    midnight = datetime(2026, 11, 21, tzinfo=UTC)
    text = "01890a5d-ac96-774b-bcce-b302099a8057"
    value = [Point(1), UUID(text), DriverUuid(text), Decimal("0.1"), midnight, {1: "ü"}]
    assert to_json(value).decode() == (
        f'[{{"x":1}},"{text}","{text}",0.1,"2026-11-21T00:00:00.000000Z",{{"1":"ü"}}]'
    )


@given(VALUES)
def test_fast_writing_yields_the_same_bytes(value: Any) -> None:
    reference = orjson.dumps(value, default=_plain, option=EXACT)
    assert to_json(value) == reference
    assert to_json([value, value]) == b"[%b,%b]" % (reference, reference)


def test_datetimes_have_microseconds_even_if_they_are_zero() -> None:
    moments = [datetime(2026, 11, 21, 9, 0, 0, microsecond, UTC) for microsecond in (1, 0, 120_000)]
    texts = [format_timestamp(moment) for moment in moments]
    assert to_json(moments) == to_json(texts)
    assert [to_json(moment) for moment in moments] == [to_json(text) for text in texts]


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


@dataclass(frozen=True, slots=True)
class Owner:
    name: str


@dataclass(frozen=True, slots=True)
class Thing:
    id: UUID
    agent_id: UUID
    owner: Owner
    title: str

    @property
    def length(self) -> int:
        return len(self.title)


class ThingResponse(TypedDict):
    id: UUID
    agent: UUID
    owner: str
    length: int


class NoteResponse(TypedDict):
    id: UUID
    agent: UUID
    title: str


THING = Thing(new_id(), new_id(), Owner("Ann"), "Hello")
SELECT = "SELECT $1::uuid AS id, $2::uuid AS agent_id, $3::text AS title, 1 AS place"


def test_fields_show_attributes_in_the_order_of_the_answer() -> None:
    serialize = Serializer(ThingResponse, Thing, owner="owner.name")
    shown = serialize(THING)
    assert shown == {"id": THING.id, "agent": THING.agent_id, "owner": "Ann", "length": 5}
    assert list(shown) == ["id", "agent", "owner", "length"]


def test_field_shows_what_a_function_returns() -> None:
    serialize = Serializer(ThingResponse, Thing, owner=lambda thing: thing.owner.name.upper())
    assert serialize(THING)["owner"] == "ANN"


def test_field_without_an_attribute_is_refused() -> None:
    class Wrong(TypedDict):
        heading: str

    with pytest.raises(TypeError, match="Thing has no attribute for the field heading"):
        Serializer(Wrong, Thing)


async def test_row_is_shown_like_the_model_of_its_columns(pool: Pool) -> None:
    serialize = Serializer(NoteResponse, Thing)
    [row] = await pool.fetch(SELECT, THING.id, THING.agent_id, THING.title)
    assert serialize.row(row) == serialize(THING)


async def test_row_with_a_computed_field_is_refused(pool: Pool) -> None:
    serialize = Serializer(NoteResponse, Thing, agent=lambda thing: thing.agent_id)
    [row] = await pool.fetch(SELECT, THING.id, THING.agent_id, THING.title)
    with pytest.raises(TypeError, match="a row cannot show what functions return"):
        serialize.row(row)
