"""Functions of the database for the statements that write events."""

from uuid import UUID

import pytest

from storage.postgres.pool import Pool

pytestmark = pytest.mark.own_database

RUN_ID = UUID(int=7)

EXPLAIN = """
EXPLAIN (VERBOSE, COSTS OFF)
SELECT event_run_id(actor), notification_created_data(type, actor, at) FROM event
"""


@pytest.mark.parametrize(
    ("actor", "run_id"),
    [(f"run:{RUN_ID}", RUN_ID), (f"key:{RUN_ID}", None), ("program", None), ("", None)],
)
async def test_event_run_id_is_that_of_run_actor(pool: Pool, actor: str, run_id: UUID | None) -> None:
    assert await pool.fetchval("SELECT event_run_id($1)", actor) == run_id


async def test_event_functions_are_inlined(pool: Pool) -> None:
    plan = "\n".join(row["QUERY PLAN"] for row in await pool.fetch(EXPLAIN))

    assert "event_run_id" not in plan
    assert "notification_created_data" not in plan
