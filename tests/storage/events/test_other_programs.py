"""Events of rows that other programs write by SQL: recorded when their transactions commit."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from storage.agents.agents import Agents
from storage.ids import new_id
from storage.model import Agent
from storage.postgres.doorbell import EVENTS
from storage.postgres.pool import Pool
from tests.storage.events.log import connected
from tests.storage.events.recorded import forget_events, list_events, logged
from tests.storage.factories import NOW, stored_agent

INSERT = "INSERT INTO notification (id, agent_id, title) VALUES ($1, $2, 'Hello')"
INSERT_MESSAGE = """
INSERT INTO message (id, organization_id, agent_id, channel, direction, subject, body, attachments, status,
                     created_at)
SELECT $1, organization_id, id, 'sms', $2, '', 'Hi', '[]', $3, now() FROM agent
"""
BY = "program"


@pytest.fixture
async def scout(pool: Pool) -> Agent:
    stored = await stored_agent(pool)
    await forget_events(pool)
    return stored


@pytest.fixture
async def psql(database_url: str) -> AsyncIterator[Any]:
    async with connected(database_url) as connection:
        yield connection


async def test_inserted_notification_is_recorded_with_its_agent(pool: Pool, psql: Any, scout: Agent) -> None:
    new = new_id()
    await psql.execute(INSERT, new, scout.id)

    [event] = await list_events(pool, "notification")
    assert (event["type"], event["actor"]) == ("notification.created", BY)
    assert (event["organization_id"], event["agent_id"]) == (scout.organization_id, scout.id)
    assert (event["resource_id"], event["run_id"]) == (new, None)
    assert event["data"] == {"source": "api", "priority": "low"}


async def test_changes_of_notification_are_recorded_by_field(pool: Pool, psql: Any, scout: Agent) -> None:
    await psql.execute(INSERT, new_id(), scout.id)
    await forget_events(pool)
    await psql.execute("UPDATE notification SET title = 'Bye', priority = 'high', scheduled_for = $1", NOW)
    await psql.execute("UPDATE notification SET cleared = true")
    await psql.execute("UPDATE notification SET title = title")
    await psql.execute("UPDATE notification SET cleared = false")
    await psql.execute("DELETE FROM notification")

    changes = {
        "fields": ["title", "priority", "scheduled_for"],
        "priority": "high",
        "scheduled_for": f"{NOW:%Y-%m-%dT%H:%M:%S.%fZ}",
    }
    assert await logged(pool, "notification") == [
        ("notification.changed", BY, changes),
        ("notification.cleared", BY, {}),
        ("notification.changed", BY, {"fields": ["cleared"]}),
        ("notification.deleted", BY, {}),
    ]


async def test_moved_notification_leaves_one_agent_for_another(pool: Pool, psql: Any, scout: Agent) -> None:
    other = await stored_agent(pool)
    await psql.execute(INSERT, new_id(), scout.id)
    await forget_events(pool)
    await psql.execute("UPDATE notification SET agent_id = $1", other.id)

    events = await list_events(pool, "notification")
    assert [(event["type"], event["agent_id"], event["organization_id"]) for event in events] == [
        ("notification.deleted", scout.id, scout.organization_id),
        ("notification.created", other.id, other.organization_id),
    ]


async def test_messages_are_recorded_when_received_sent_or_failed(
    pool: Pool, psql: Any, scout: Agent
) -> None:
    await psql.execute(INSERT_MESSAGE, new_id(), "inbound", "received")
    await psql.execute(INSERT_MESSAGE, new_id(), "outbound", "queued")
    await psql.execute("UPDATE message SET status = 'sent' WHERE direction = 'outbound'")
    await psql.execute("UPDATE message SET body = 'Hello'")
    await psql.execute("UPDATE message SET status = 'failed' WHERE direction = 'outbound'")

    data = {"channel": "sms"}
    assert await logged(pool, "message") == [
        ("message.received", BY, data),
        ("message.sent", BY, data),
        ("message.failed", BY, data),
    ]
    assert {event["agent_id"] for event in await list_events(pool, "message")} == {scout.id}


async def test_agents_are_recorded_when_created_changed_and_deleted(
    pool: Pool, psql: Any, scout: Agent
) -> None:
    await psql.execute(
        "INSERT INTO agent (id, organization_id, name, model, created_at)"
        " SELECT gen_random_uuid(), organization_id, 'New', model, now() FROM agent"
    )
    await psql.execute("UPDATE agent SET name = 'Ranger', parent_id = NULL, tags = '{a}' WHERE name = 'New'")
    await psql.execute("UPDATE agent SET name = name")
    await psql.execute("UPDATE agent SET deleted_at = now() WHERE name = 'Ranger'")
    await psql.execute("UPDATE agent SET emptied_at = now() WHERE name = 'Ranger'")
    await psql.execute("DELETE FROM agent")

    assert await logged(pool, "agent") == [
        ("agent.created", BY, {}),
        ("agent.changed", BY, {"fields": ["name", "tags"]}),
        ("agent.deleted", BY, {}),
        ("agent.deleted", BY, {}),
    ]
    assert (await list_events(pool, "agent"))[-1]["agent_id"] == scout.id


async def test_deletion_of_agent_records_no_deleted_notifications(
    pool: Pool, psql: Any, scout: Agent
) -> None:
    await psql.execute(INSERT, new_id(), scout.id)
    await forget_events(pool)
    await psql.execute("DELETE FROM agent")

    assert await list_events(pool, "notification") == []
    assert await logged(pool, "agent") == [("agent.deleted", BY, {})]


async def test_pause_by_another_program_is_recorded(pool: Pool, psql: Any, scout: Agent) -> None:
    await psql.execute("UPDATE organization SET paused = true, name = 'Acme'")
    await psql.execute("UPDATE organization SET paused = true")
    await psql.execute("UPDATE organization SET paused = false")

    events = await list_events(pool, "organization")
    assert [event["type"] for event in events] == ["organization.paused", "organization.unpaused"]
    assert {(event["organization_id"], event["agent_id"]) for event in events} == {
        (scout.organization_id, None)
    }


async def test_open_transaction_takes_no_ids_before_its_commit(
    pool: Pool, psql: Any, scout: Agent, database_url: str
) -> None:
    early, late = new_id(), new_id()
    async with psql.transaction():
        await psql.execute(INSERT, early, scout.id)
        assert (
            await pool.fetchval(
                "SELECT count(*) FROM pg_locks WHERE relation = 'event'::regclass "
                "AND mode = 'RowExclusiveLock'"
            )
            == 0
        )
        async with connected(database_url) as second:
            await second.execute(INSERT, late, scout.id)

    assert [event["resource_id"] for event in await list_events(pool, "notification")] == [late, early]


async def test_rollback_leaves_neither_events_nor_gaps(pool: Pool, psql: Any, scout: Agent) -> None:
    transaction = psql.transaction()
    await transaction.start()
    await psql.execute(INSERT, new_id(), scout.id)
    await transaction.rollback()
    await psql.execute(INSERT, new_id(), scout.id)
    await psql.execute(INSERT, new_id(), scout.id)

    first, second = await list_events(pool, "notification")
    assert second["id"] == first["id"] + 1
    assert await pool.fetchval("SELECT count(*) FROM event_of_program") == 0


async def test_commit_rings_once_for_all_its_events(psql: Any, scout: Agent, database_url: str) -> None:
    rings: asyncio.Queue[str] = asyncio.Queue()
    async with connected(database_url) as listener:
        await listener.add_listener("hostsvc_doorbell", lambda *ring: rings.put_nowait(ring[-1]))
        async with psql.transaction():
            for _ in range(3):
                await psql.execute(INSERT, new_id(), scout.id)
        await psql.execute("NOTIFY hostsvc_doorbell, 'end'")
        assert [await rings.get(), await rings.get()] == [EVENTS, "end"]


async def test_bulk_load_records_each_row_in_order(pool: Pool, psql: Any, scout: Agent) -> None:
    ids = [new_id() for _ in range(25_000)]
    rows = [(one, scout.id, "Bulk") for one in ids]
    await psql.copy_records_to_table("notification", records=rows, columns=["id", "agent_id", "title"])

    assert [event["resource_id"] for event in await list_events(pool, "notification")] == ids
    assert await pool.fetchval("SELECT count(*) FROM event_of_program") == 0


async def test_rows_of_the_service_are_not_recorded_twice(pool: Pool, scout: Agent) -> None:
    await pool.execute(
        INSERT.replace("title", "organization_id, title")
        .replace("'Hello'", "$3, 'Hello'")
        .replace("(id", "(created_at, id")
        .replace("($1", "(now(), $1"),
        new_id(),
        scout.id,
        scout.organization_id,
    )
    await Agents(pool).delete(scout.id, NOW)

    assert await list_events(pool, "notification") == []
    assert [type_ for type_, _, _ in await logged(pool, "agent")] == ["agent.deleted"]


async def test_program_needs_no_rights_on_the_log(psql: Any, pool: Pool, scout: Agent) -> None:
    await psql.execute("CREATE ROLE loader")
    try:
        await psql.execute("GRANT SELECT ON agent TO loader; GRANT INSERT ON notification TO loader")
        await psql.execute("GRANT SELECT, UPDATE ON agent_state TO loader")
        await psql.execute("SET ROLE loader")
        await psql.execute(INSERT, new_id(), scout.id)
    finally:
        await psql.execute("RESET ROLE; DROP OWNED BY loader; DROP ROLE loader")

    assert len(await list_events(pool, "notification")) == 1


@pytest.mark.parametrize("table", ["notification CASCADE", "message CASCADE", "agent CASCADE"])
async def test_truncate_by_another_program_is_refused(psql: Any, scout: Agent, table: str) -> None:
    with pytest.raises(asyncpg.FeatureNotSupportedError, match="would leave no events in the log"):
        await psql.execute(f"TRUNCATE {table}")
