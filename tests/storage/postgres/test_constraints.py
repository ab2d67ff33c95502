"""Constraints: the error that each one stands for."""

from storage.errors import AnsweredBefore, NotUnique, ReferenceMissing
from storage.postgres.constraints import constraint_error
from storage.postgres.pool import Pool


def test_unique_constraint_names_its_fields() -> None:
    error = constraint_error("tool_name_unique")
    assert isinstance(error, NotUnique)
    assert error.fields == ("adapter", "name")


def test_foreign_key_names_its_field() -> None:
    error = constraint_error("agent_adapter_adapter_id_fkey")
    assert isinstance(error, ReferenceMissing)
    assert error.field == "adapters"


def test_receipt_constraint_means_an_answered_request() -> None:
    assert isinstance(constraint_error("receipt_unique"), AnsweredBefore)


def test_unknown_constraint_has_no_error() -> None:
    assert constraint_error("run_over_with_outcome") is None


async def test_every_unique_and_foreign_key_has_an_error(pool: Pool) -> None:
    rows = await pool.fetch(
        "SELECT c.conname AS name FROM pg_constraint c JOIN pg_class t ON t.oid = c.conrelid"
        " WHERE c.contype IN ('u', 'f') AND t.relnamespace = 'public'::regnamespace"
        " UNION SELECT i.relname FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid"
        " WHERE x.indisunique AND NOT x.indisprimary AND i.relnamespace = 'public'::regnamespace"
    )
    assert [row["name"] for row in rows if constraint_error(row["name"]) is None] == []
