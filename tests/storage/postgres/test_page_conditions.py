"""Conditions of the statements that list one page."""

from storage.ids import new_id
from storage.postgres.page_conditions import PageConditions
from storage.postgres.paging import Page
from tests.storage.factories import NOW

OWNERS = (new_id(),)
STATEMENT = "SELECT 1 WHERE id = ANY($1)/* and */ LIMIT $2 OFFSET $3"


def test_first_page_has_only_the_statements_parameters() -> None:
    conditions = PageConditions(OWNERS, Page(limit=5, offset=2), "created_at, id")

    assert conditions.parameters == [OWNERS, 5, 2]
    assert conditions.into(STATEMENT) == "SELECT 1 WHERE id = ANY($1) LIMIT $2 OFFSET $3"


def test_cursor_and_given_values_become_conditions() -> None:
    cursor = (NOW, new_id())
    conditions = PageConditions(OWNERS, Page(after=cursor), "created_at, id")
    conditions.add_optional("status = $", None)
    conditions.add_optional("cleared = $", False)

    assert conditions.parameters == [OWNERS, 1000, 0, *cursor, False]
    assert conditions.into(STATEMENT) == (
        "SELECT 1 WHERE id = ANY($1) AND (created_at, id) < ($4, $5) AND cleared = $6 LIMIT $2 OFFSET $3"
    )
