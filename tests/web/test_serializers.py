"""Answers derived from the attributes of a model, or from the columns of a row."""

from dataclasses import dataclass
from typing import TypedDict
from uuid import UUID

import pytest

from storage.ids import new_id
from storage.postgres.pool import Pool
from web.json import Serializer


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
