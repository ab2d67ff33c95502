"""Named parameters: they are numbered, checked at import, and given by name."""

import pytest

from storage.postgres.pool import Pool
from storage.postgres.statement import Statement, arrays_of, values_of


def test_parameters_are_numbered_in_the_order_of_their_first_use() -> None:
    statement = Statement("SELECT :b, :a, :b", ["a", "b"])
    assert statement.sql == "SELECT $1, $2, $1"
    assert statement.given(a=1, b=2) == (statement.sql, 2, 1)
    assert statement.given({"a": 1}, b=2) == (statement.sql, 2, 1)


@pytest.mark.parametrize(
    "text",
    ["SELECT 1::text", "SELECT now()::timestamptz", "SELECT a[1:10]", "SELECT to_char(at, 'HH24:MI:SS')"],
)
def test_casts_slices_and_texts_are_no_parameters(text: str) -> None:
    statement = Statement(text, [])
    assert statement.sql == text


@pytest.mark.parametrize(("names", "wrong"), [(["a"], "b"), (["a", "b", "c"], "c"), ([], "a, b")])
def test_unknown_and_unused_names_are_refused(names: list[str], wrong: str) -> None:
    with pytest.raises(ValueError, match=f"^parameters unknown or unused: {wrong}$"):
        Statement("SELECT :a::text, :b", names)


def test_arrays_in_another_order_than_their_columns_are_refused() -> None:
    Statement("SELECT FROM unnest(:new_id::uuid[], :at::text[]) AS i (id, at)", ["new_id", "at"])
    with pytest.raises(ValueError, match="column at would be made of the parameter id"):
        Statement(
            "SELECT FROM unnest(:id::uuid[], :at::text[]) WITH ORDINALITY AS i (at, id, ordinal)",
            ["id", "at"],
        )


@pytest.mark.parametrize("values", [{}, {"a": 1, "b": 2}, {"b": 2}])
def test_value_missing_or_without_parameter_is_refused(values: dict[str, int]) -> None:
    with pytest.raises(TypeError, match="Statement of a"):
        Statement("SELECT :a", ["a"]).given(values)


async def test_columns_become_arrays_or_values(pool: Pool) -> None:
    columns = {"length": len, "text": lambda item: item}
    assert values_of(columns, "abc") == {"length": 3, "text": "abc"}
    rows = Statement(
        "SELECT * FROM unnest(:text::text[], :length::integer[]) AS i (text, length) ORDER BY length",
        columns,
    )
    found = await pool.fetch(*rows.given(arrays_of(columns, ["abc", "d"])))
    assert [tuple(row) for row in found] == [("d", 1), ("abc", 3)]
