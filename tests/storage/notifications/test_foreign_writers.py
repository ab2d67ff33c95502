"""Other programs that write the queue: the triggers do for them what the service does itself.

The tests write and read through psycopg, which stands for psql, a bulk loader or another service.
"""

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import UTC, datetime
from itertools import product
from typing import Any
from uuid import UUID, uuid4

import aiopg
import psycopg2
import pytest
from psycopg2.extras import RealDictCursor

from storage.postgres.doorbell import parse_ring
from storage.postgres.pool import Pool
from tests.patience import PATIENCE_SECONDS

PAST = datetime(2020, 1, 1, tzinfo=UTC)
SOON = datetime(2190, 1, 1, tzinfo=UTC)
LATER = datetime(2190, 1, 2, tzinfo=UTC)

INSERT_AGENT = """
    WITH organization AS (
        INSERT INTO organization (id, name, created_at) VALUES (gen_random_uuid(), 'Acme', now()) RETURNING id
    ), agent AS (
        INSERT INTO agent (id, organization_id, name, model, created_at)
        SELECT %s, id, 'Scout', 'builtin/inbox', now() FROM organization
    )
    INSERT INTO agent_state (agent_id) VALUES (%s)
"""
INSERT_HIGH = "INSERT INTO notification (agent_id, title, priority) VALUES (%s, 'Hello', 'high')"
INSERT_LOW = "INSERT INTO notification (agent_id, title) VALUES (%s, 'By the way')"
INSERT_REMINDER = """
    INSERT INTO notification (agent_id, title, priority, scheduled_for) VALUES (%s, 'Call', 'high', %s)
"""
INSERTS_WITH_TIME = (
    "INSERT INTO notification (agent_id, title, created_at) VALUES (%s, 'Call', %s)",
    "INSERT INTO notification (agent_id, title, scheduled_for) VALUES (%s, 'Call', %s)",
    "INSERT INTO notification (agent_id, title, cleared, cleared_at) VALUES (%s, 'Call', true, %s)",
)
TIMES_OUTSIDE_CALENDAR = (
    "-infinity",
    "0044-03-15 12:00:00+00 BC",
    "0001-01-01 00:00:00+00",
    "9999-12-31 23:59:59.999999+00",
    "10000-01-01 00:00:00+00",
    "infinity",
)
SELECT_NOTIFICATION = "SELECT * FROM notification WHERE agent_id = %s"
SELECT_STATE = "SELECT * FROM agent_state WHERE agent_id = %s"


class Psql:
    """Another program's connection, which also listens to the doorbell."""

    def __init__(self, connection: aiopg.Connection) -> None:
        self._connection = connection

    async def run(self, sql: str, *args: Any) -> None:
        async with self._connection.cursor() as cursor:
            await cursor.execute(sql, [str(arg) if isinstance(arg, UUID) else arg for arg in args])

    async def row(self, sql: str, *args: Any) -> dict[str, Any]:
        async with self._connection.cursor(cursor_factory=RealDictCursor) as cursor:
            await cursor.execute(sql, [str(arg) if isinstance(arg, UUID) else arg for arg in args])
            (row,) = await cursor.fetchall()
            return dict(row)

    async def agent(self) -> UUID:
        agent_id = uuid4()
        await self.run(INSERT_AGENT, agent_id, agent_id)
        return agent_id

    async def notification(self, agent_id: UUID) -> dict[str, Any]:
        return await self.row(SELECT_NOTIFICATION, agent_id)

    async def state(self, agent_id: UUID) -> dict[str, Any]:
        return await self.row(SELECT_STATE, agent_id)

    async def rings(self) -> list[UUID]:
        """Return the agents for whom the doorbell rang since the last call."""
        await self.run("NOTIFY hostsvc_doorbell, 'end'")
        payloads: list[str] = []
        while not payloads or payloads[-1] != "end":
            payloads.append(
                (await asyncio.wait_for(self._connection.notifies.get(), PATIENCE_SECONDS)).payload
            )
        return [agent_id for payload in payloads[:-1] for agent_id in parse_ring(payload)]


@pytest.fixture
async def psql(database_url: str) -> AsyncIterator[Psql]:
    async with aiopg.connect(database_url) as connection:
        psql = Psql(connection)
        await psql.run("LISTEN hostsvc_doorbell")
        yield psql


async def test_row_with_agent_title_and_priority_wakes_agent(psql: Psql) -> None:
    agent_id = await psql.agent()
    await psql.run(INSERT_HIGH, agent_id)
    notification, state = await psql.notification(agent_id), await psql.state(agent_id)
    organization = await psql.row("SELECT id FROM organization")
    assert notification["organization_id"] == organization["id"]
    assert notification["source"] == "api"
    assert notification["activated_at"] is not None
    assert state["next_due_at"] == notification["activated_at"]
    assert state["wake_seq"] == 1
    assert await psql.rings() == [agent_id]


async def test_low_notification_never_changes_the_state(psql: Psql) -> None:
    agent_id = await psql.agent()
    await psql.run(INSERT_LOW, agent_id)
    await psql.run("UPDATE notification SET cleared = true WHERE agent_id = %s", agent_id)
    await psql.run("DELETE FROM notification WHERE agent_id = %s", agent_id)
    state = await psql.state(agent_id)
    assert (state["wake_seq"], state["next_due_at"], await psql.rings()) == (0, None, [])


async def test_reminder_for_the_past_is_due_when_inserted(psql: Psql) -> None:
    agent_id = await psql.agent()
    await psql.run(INSERT_REMINDER, agent_id, PAST)
    notification = await psql.notification(agent_id)
    assert notification["activated_at"] >= notification["created_at"] > PAST


async def test_earliest_due_time_of_agent_stays(psql: Psql) -> None:
    agent_id = await psql.agent()
    await psql.run("UPDATE agent_state SET next_due_at = %s, sleep_until = %s", SOON, SOON)
    await psql.run(INSERT_REMINDER, agent_id, LATER)
    assert (await psql.state(agent_id))["next_due_at"] == SOON


@pytest.mark.parametrize(
    "busy",
    ["status = 'running', run_id = gen_random_uuid()", "queued_at = now()", "status = 'archived'"],
    ids=["running", "queued", "archived"],
)
async def test_busy_agent_is_told_but_not_made_due(psql: Psql, busy: str) -> None:
    agent_id = await psql.agent()
    await psql.run(f"UPDATE agent_state SET {busy}")  # noqa: S608 - one of the three above
    await psql.run(INSERT_HIGH, agent_id)
    state = await psql.state(agent_id)
    assert (state["next_due_at"], state["wake_seq"]) == (None, 1)
    assert await psql.rings() == [agent_id]


async def test_clearing_completes_the_row_and_tells_the_agent(psql: Psql) -> None:
    agent_id = await psql.agent()
    await psql.run(INSERT_HIGH, agent_id)
    await psql.run("UPDATE notification SET cleared = true")
    notification = await psql.notification(agent_id)
    assert notification["cleared_at"] is not None
    assert notification["activated_at"] is None
    assert (await psql.state(agent_id))["wake_seq"] == 2
    assert await psql.rings() == [agent_id, agent_id]


async def test_uncleared_notification_is_activated_again(psql: Psql) -> None:
    agent_id = await psql.agent()
    await psql.run(INSERT_HIGH, agent_id)
    first = (await psql.notification(agent_id))["activated_at"]
    await psql.run("UPDATE notification SET cleared = true")
    await psql.run("UPDATE notification SET cleared = false")
    notification = await psql.notification(agent_id)
    assert notification["cleared_at"] is None
    assert notification["activated_at"] > first


async def test_priority_change_activates_and_deactivates_notification(psql: Psql) -> None:
    agent_id = await psql.agent()
    await psql.run(INSERT_LOW, agent_id)
    await psql.run("UPDATE notification SET priority = 'high'")
    raised = await psql.notification(agent_id)
    assert raised["activated_at"] > raised["created_at"]
    assert (await psql.state(agent_id))["next_due_at"] == raised["activated_at"]
    await psql.run("UPDATE notification SET priority = 'low'")
    assert (await psql.notification(agent_id))["activated_at"] is None


async def test_reminder_is_due_at_its_scheduled_time(psql: Psql) -> None:
    agent_id = await psql.agent()
    await psql.run(INSERT_REMINDER, agent_id, LATER)
    for moment in (LATER, SOON):
        assert (await psql.notification(agent_id))["activated_at"] == moment
        assert (await psql.state(agent_id))["next_due_at"] == moment
        await psql.run("UPDATE notification SET scheduled_for = %s", SOON)


async def test_changed_title_keeps_the_activation(psql: Psql) -> None:
    agent_id = await psql.agent()
    await psql.run(INSERT_HIGH, agent_id)
    before = (await psql.notification(agent_id))["activated_at"]
    await psql.run("UPDATE notification SET title = 'Hello again'")
    assert (await psql.notification(agent_id))["activated_at"] == before


async def test_delete_of_notification_tells_the_agent(psql: Psql) -> None:
    agent_id = await psql.agent()
    await psql.run(INSERT_HIGH, agent_id)
    await psql.run("DELETE FROM notification")
    assert (await psql.state(agent_id))["wake_seq"] == 2
    assert await psql.rings() == [agent_id, agent_id]


async def test_notification_given_to_another_agent_tells_both(psql: Psql) -> None:
    agent_id, other_id = await psql.agent(), await psql.agent()
    await psql.run(INSERT_HIGH, agent_id)
    first = (await psql.notification(agent_id))["activated_at"]
    assert await psql.rings() == [agent_id]
    await psql.run("UPDATE notification SET agent_id = %s", other_id)
    moved = await psql.notification(other_id)
    assert moved["activated_at"] > first
    assert (await psql.state(other_id))["next_due_at"] == moved["activated_at"]
    assert (await psql.state(agent_id))["wake_seq"] == 2
    assert set(await psql.rings()) == {agent_id, other_id}


async def test_notification_raised_with_new_id_tells_the_agent(psql: Psql) -> None:
    agent_id = await psql.agent()
    await psql.run(INSERT_LOW, agent_id)
    await psql.run("UPDATE notification SET id = gen_random_uuid(), priority = 'high'")
    raised = await psql.notification(agent_id)
    assert (await psql.state(agent_id))["next_due_at"] == raised["activated_at"]
    assert await psql.rings() == [agent_id]


async def test_writer_with_empty_search_path_is_heard(psql: Psql) -> None:
    agent_id = await psql.agent()
    await psql.run("SET search_path TO ''")  # a dump by pg_dump does the same
    await psql.run("INSERT INTO public.notification (agent_id, title) VALUES (%s, 'Hello')", agent_id)
    await psql.run("UPDATE public.notification SET priority = 'high'")
    await psql.run("DELETE FROM public.notification")
    assert await psql.rings() == [agent_id, agent_id]


async def test_bulk_load_rings_once_for_each_of_its_agents(psql: Psql, database_url: str) -> None:
    agents = {await psql.agent() for _ in range(3)}
    rows = "".join(f"{agent_id}\tRow {number}\thigh\n" for number in range(50) for agent_id in agents)
    with closing(psycopg2.connect(database_url)) as loader, loader, loader.cursor() as cursor:
        cursor.copy_expert("COPY notification (agent_id, title, priority) FROM STDIN", io.StringIO(rows))
    for agent_id in agents:
        earliest = await psql.row(
            "SELECT min(activated_at) AS at, count(*) AS rows FROM notification WHERE agent_id = %s", agent_id
        )
        assert earliest["rows"] == 50
        assert (await psql.state(agent_id))["next_due_at"] == earliest["at"]
    rings = await psql.rings()
    assert len(rings) == 3
    assert set(rings) == agents


async def test_writers_to_same_agents_do_not_deadlock(psql: Psql, database_url: str) -> None:
    agents = [await psql.agent() for _ in range(6)]

    async def write(order: list[UUID]) -> None:
        async with aiopg.connect(database_url) as connection:
            for _ in range(15):
                await Psql(connection).run(
                    "INSERT INTO notification (agent_id, title, priority)"
                    " SELECT unnest(%s::uuid[]), 'Hello', 'high'",
                    [str(agent_id) for agent_id in order],
                )

    await asyncio.gather(write(agents), write(agents[::-1]), write(agents[3:] + agents[:3]))
    for agent_id in agents:
        assert (await psql.state(agent_id))["wake_seq"] == 45, "a write was not counted"


async def test_row_for_unknown_agent_is_refused(psql: Psql) -> None:
    with pytest.raises(psycopg2.IntegrityError):
        await psql.run(INSERT_HIGH, uuid4())


async def test_deleted_agent_gets_no_rows_but_keeps_changeable_ones(psql: Psql) -> None:
    agent_id, deleted_id = await psql.agent(), await psql.agent()
    await psql.run(INSERT_HIGH, agent_id)
    await psql.run(INSERT_HIGH, deleted_id)
    await psql.run("UPDATE agent SET deleted_at = now() WHERE id = %s", deleted_id)
    await psql.run("DELETE FROM agent_state WHERE agent_id = %s", deleted_id)
    for late in (INSERT_HIGH, "UPDATE notification SET agent_id = %s"):
        with pytest.raises(psycopg2.IntegrityError, match=f"there is no agent {deleted_id}"):
            await psql.run(late, deleted_id)
    await psql.run("UPDATE notification SET cleared = true")
    assert (await psql.notification(deleted_id))["cleared"]


async def test_time_outside_the_calendar_is_refused(psql: Psql) -> None:
    agent_id = await psql.agent()
    for insert, time in product(INSERTS_WITH_TIME, TIMES_OUTSIDE_CALENDAR):
        with pytest.raises(psycopg2.IntegrityError, match="notification_within_the_calendar"):
            await psql.run(insert, agent_id, time)


async def test_organization_is_corrected_to_that_of_the_agent(psql: Psql) -> None:
    agent_id, stranger_id = await psql.agent(), await psql.agent()
    organization = "SELECT organization_id AS id FROM agent WHERE id = %s"
    own, other = await psql.row(organization, agent_id), await psql.row(organization, stranger_id)
    await psql.run(
        "INSERT INTO notification (agent_id, organization_id, title) VALUES (%s, %s, 'Hello')",
        agent_id,
        UUID(str(other["id"])),
    )
    assert (await psql.notification(agent_id))["organization_id"] == own["id"]
    await psql.run("UPDATE notification SET organization_id = %s", UUID(str(other["id"])))
    assert (await psql.notification(agent_id))["organization_id"] == own["id"]


async def test_writes_of_the_service_fire_no_trigger(psql: Psql, pool: Pool) -> None:
    agent_id = await psql.agent()
    organization_id = await pool.fetchval("SELECT organization_id FROM agent")
    await pool.execute(
        "INSERT INTO notification (organization_id, agent_id, title) VALUES ($1, $2, 'ours')",
        organization_id,
        agent_id,
    )
    await pool.execute("UPDATE notification SET title = 'still ours'")
    await pool.execute("DELETE FROM notification")
    state = await psql.state(agent_id)
    assert (state["wake_seq"], state["next_due_at"]) == (0, None)
    assert await psql.rings() == []
