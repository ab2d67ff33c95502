"""Assembled statements: conditions, assignments, and their numbered parameters."""

import pytest

from storage.model import Agent
from storage.postgres.query import Conditions, assign

PAGE = "SELECT * FROM agent WHERE organization_id = $1 /* and */ LIMIT $2"
UPDATE = "UPDATE agent SET /* set */ WHERE id = $1"


def test_conditions_number_their_values_after_the_parameters() -> None:
    conditions = Conditions("organization", 50)
    conditions.add("(created_at, id) < ($, $)", "then", "id")
    conditions.add("status <> 'archived'")
    conditions.add("name = $", "Scout")

    assert conditions.into(PAGE) == (
        "SELECT * FROM agent WHERE organization_id = $1  AND (created_at, id) < ($3, $4)"
        " AND status <> 'archived' AND name = $5 LIMIT $2"
    )
    assert conditions.parameters == ["organization", 50, "then", "id", "Scout"]


def test_optional_condition_is_left_out_without_a_value() -> None:
    conditions = Conditions("organization", 50)
    conditions.add_optional("name = $", None)
    conditions.add_optional("paused = $", False)

    assert conditions.into(PAGE) == "SELECT * FROM agent WHERE organization_id = $1  AND paused = $3 LIMIT $2"
    assert conditions.parameters == ["organization", 50, False]


def test_conditions_stand_at_every_mark() -> None:
    conditions = Conditions()
    conditions.add("a = $", 1)
    assert conditions.into("SELECT 1 /* and */ UNION SELECT 2 /* and */") == (
        "SELECT 1  AND a = $1 UNION SELECT 2  AND a = $1"
    )


@pytest.mark.parametrize("values", [(), (1, 2)], ids=["too few", "too many"])
def test_condition_with_wrong_number_of_values_is_refused(values: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="zip"):
        Conditions().add("a = $", *values)


def test_statement_without_a_mark_is_refused() -> None:
    with pytest.raises(ValueError, match=r"has no /\* and \*/: SELECT 1"):
        Conditions().into("SELECT 1")
    with pytest.raises(ValueError, match=r"has no /\* set \*/"):
        assign(PAGE, {"name": "Scout"}, Agent, after=1)


def test_assign_numbers_the_changes_in_their_order() -> None:
    statement = assign(UPDATE, {"tags": [], "name": "Scout"}, Agent, after=1)
    assert statement == "UPDATE agent SET tags = $2, name = $3 WHERE id = $1"


def test_assign_refuses_columns_that_must_not_be_changed() -> None:
    with pytest.raises(ValueError, match="must not be changed: created_at, id"):
        assign(UPDATE, {"id": 1, "name": "Scout", "created_at": 2}, Agent, after=1)
