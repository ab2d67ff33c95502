"""The pool: session settings, limits on every wait, and translation into storage errors."""

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import UUID

import aiopg
import pytest

from storage.errors import (
    DatabaseRefused,
    DatabaseUnavailable,
    NodeEnded,
    NotUnique,
    RowLocked,
    SchemaChanged,
)
from storage.ids import new_id
from storage.postgres.connections import MEMBER, NODE, connect
from storage.postgres.pool import (
    CLOSE_TIMEOUT_SECONDS,
    Connection,
    DatabaseSettings,
    Pool,
    PoolSize,
    open_pool,
)
from tests.storage.factories import NOW
from tests.storage.postgres.proxies.dying_server import dying_server

INSERT_ORGANIZATION = "INSERT INTO organization (id, name, created_at) VALUES ($1, $2, $3)"
INSERT_USER = "INSERT INTO user_account (id, email, password_hash, created_at) VALUES ($1, $2, '', $3)"
INSERT_NODE = """
INSERT INTO node (life, name, version, protocol, roles) VALUES ($1, '', '', 1, '{}') RETURNING id
"""
COUNT_ORGANIZATIONS = "SELECT count(*) FROM organization"
END_OTHERS = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name = 'hostsvc'
"""


@dataclass
class StoredNode:
    """A node with a row, which does not beat."""

    node_id: int
    life: UUID = field(default_factory=new_id)
    backend: int | None = None


async def stored_node(database_url: str) -> StoredNode:
    node = StoredNode(0)
    async with connect(database_url) as connection:
        node.node_id = await connection.fetchval(INSERT_NODE, node.life)
    return node


async def end_connections(database_url: str) -> None:
    """End the connections of the service, as a restart of the server or an administrator does."""
    async with aiopg.connect(database_url) as connection, connection.cursor() as cursor:
        await cursor.execute(END_OTHERS)


async def count_by_another_client(database_url: str) -> int:
    async with aiopg.connect(database_url) as connection, connection.cursor() as cursor:
        await cursor.execute(COUNT_ORGANIZATIONS)
        (count,) = await cursor.fetchone()
        return int(count)


async def test_session_has_the_settings_of_the_service(pool: Pool) -> None:
    row = await pool.fetchrow(
        "SELECT current_setting('hostsvc.origin') AS origin, current_setting('jit') AS jit,"
        " current_setting('timezone') AS timezone, current_setting('application_name') AS application"
    )
    assert row is not None
    assert dict(row) == {"origin": "service", "jit": "off", "timezone": "UTC", "application": "hostsvc"}


async def test_session_settings_survive_return_to_the_pool(database_url: str) -> None:
    async with open_pool(DatabaseSettings(url=database_url, pool_size=1), node=None) as pool:
        process = await pool.fetchval("SELECT pg_backend_pid()")
        assert await pool.fetchval("SELECT current_setting('hostsvc.origin')") == "service"
        assert await pool.fetchval("SELECT pg_backend_pid()") == process


@pytest.mark.parametrize(
    "value",
    [{"b": [1, "ä", None, {"b": 1.5}], "a": 1e300}, [], "text", 0, True],
    ids=lambda value: type(value).__name__,
)
async def test_json_value_round_trips_unchanged(pool: Pool, value: object) -> None:
    assert json.dumps(await pool.fetchval("SELECT $1::json", value)) == json.dumps(value)


async def test_id_read_from_the_database_can_be_stored_in_json(pool: Pool) -> None:
    read = await pool.fetchval("SELECT gen_random_uuid()")
    stored = await pool.fetchval("SELECT $1::json", {"id": read})
    assert isinstance(read, UUID)
    assert stored == {"id": str(read)}


async def test_value_without_json_form_is_refused(pool: Pool) -> None:
    with pytest.raises(Exception, match="not JSON serializable"):
        await pool.fetchval("SELECT $1::json", {"at": object()})


async def test_transaction_commits_all_rows_together(pool: Pool, database_url: str) -> None:
    async with pool.transaction() as connection:
        await connection.execute(INSERT_ORGANIZATION, new_id(), "one", NOW)
        await connection.execute(INSERT_ORGANIZATION, new_id(), "two", NOW)
        assert await count_by_another_client(database_url) == 0, "rows are visible before the commit"
    assert await pool.fetchval(COUNT_ORGANIZATIONS) == 2


async def test_transaction_with_failing_body_is_rolled_back(pool: Pool) -> None:
    async def write() -> None:
        async with pool.transaction() as connection:
            await connection.execute(INSERT_ORGANIZATION, new_id(), "one", NOW)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await write()
    assert await pool.fetchval(COUNT_ORGANIZATIONS) == 0


async def test_cancelled_transaction_is_rolled_back_and_returns_its_connection(
    database_url: str,
) -> None:
    async with open_pool(DatabaseSettings(url=database_url, pool_size=1), node=None) as pool:
        inserted = asyncio.Event()

        async def write() -> None:
            async with pool.transaction() as connection:
                await connection.execute(INSERT_ORGANIZATION, new_id(), "one", NOW)
                inserted.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(write())
        await inserted.wait()
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        assert await pool.fetchval(COUNT_ORGANIZATIONS) == 0


async def test_write_completes_and_reports_despite_cancelled_caller(pool: Pool) -> None:
    under_way, go_on, announced = asyncio.Event(), asyncio.Event(), asyncio.Event()
    reports: list[str] = []
    pool.on_write = announced.set

    async def work(connection: Connection) -> str:
        await connection.execute(INSERT_ORGANIZATION, new_id(), "one", NOW)
        under_way.set()
        await go_on.wait()
        return "done"

    caller = asyncio.create_task(pool.write(work, "write", reports.append))
    await under_way.wait()
    caller.cancel()
    await asyncio.wait({caller})
    assert not reports, "reported before the commit"
    go_on.set()
    await announced.wait()
    assert caller.cancelled()
    assert reports == ["done"]
    assert await pool.fetchval(COUNT_ORGANIZATIONS) == 1


async def test_failed_write_is_rolled_back_and_announces_nothing(pool: Pool) -> None:
    announced: list[None] = []
    pool.on_write = lambda: announced.append(None)

    async def work(connection: Connection) -> None:
        await connection.execute(INSERT_USER, new_id(), "ada@example.org", NOW)
        await connection.execute(INSERT_USER, new_id(), "ADA@example.org", NOW)

    with pytest.raises(NotUnique):
        await pool.write(work, "write", announced.append)
    assert not announced
    assert await pool.fetchval("SELECT count(*) FROM user_account") == 0


async def test_write_waits_for_a_locked_row(pool: Pool) -> None:
    locked, attempts = asyncio.Event(), 0

    async def work(connection: Connection) -> int:
        nonlocal attempts
        attempts += 1
        await connection.execute("UPDATE instance SET epoch = epoch + 1")
        return attempts

    async def hold() -> None:
        async with pool.transaction() as holder:
            await holder.execute("UPDATE instance SET epoch = epoch")
            locked.set()
            await asyncio.sleep(0.2)

    holding = asyncio.create_task(hold())
    await locked.wait()
    assert await pool.write(work, "write") == 2
    await holding


async def test_few_writes_wait_for_locked_rows_and_reads_go_on(database_url: str) -> None:
    settings = DatabaseSettings(url=database_url, pool_size=4, acquire_timeout_seconds=3.0)
    attempts = at_work = 0

    async def work(connection: Connection) -> None:
        nonlocal attempts, at_work
        attempts, at_work = attempts + 1, at_work + 1
        try:
            await connection.execute("UPDATE instance SET epoch = epoch")
        finally:
            at_work -= 1

    async with open_pool(settings, node=None) as pool, pool.transaction() as holder:
        await holder.execute("UPDATE instance SET epoch = epoch")
        writes = [asyncio.create_task(pool.write(work, "write")) for _ in range(20)]
        while attempts < len(writes) or at_work > 1:  # noqa: ASYNC110 -- nothing signals it
            await asyncio.sleep(0.01)
        assert await pool.fetchval("SELECT 1") == 1
        assert sum(write.done() for write in writes) < len(writes) / 2  # others wait without a connection
        results = await asyncio.gather(*writes, return_exceptions=True)
        assert {type(result) for result in results} == {RowLocked}


async def test_closing_waits_for_a_write_without_its_caller(database_url: str) -> None:
    under_way = asyncio.Event()

    async def work(connection: Connection) -> None:
        under_way.set()
        await connection.execute(INSERT_ORGANIZATION, new_id(), "one", NOW)

    async with open_pool(DatabaseSettings(url=database_url), node=None) as pool:
        caller = asyncio.create_task(pool.write(work, "write"))
        await under_way.wait()
        caller.cancel()
    assert await count_by_another_client(database_url) == 1


async def test_closing_waits_only_for_connections_in_use(database_url: str) -> None:
    under_way, go_on = asyncio.Event(), asyncio.Event()

    async def write(pool: Pool) -> None:
        async with pool.transaction() as connection:
            await connection.execute(INSERT_ORGANIZATION, new_id(), "one", NOW)
            under_way.set()
            await go_on.wait()

    async with asyncio.timeout(CLOSE_TIMEOUT_SECONDS / 2):
        async with open_pool(DatabaseSettings(url=database_url), node=None) as pool:
            writing = asyncio.create_task(write(pool))
            await under_way.wait()
            asyncio.get_running_loop().call_later(0.05, go_on.set)
        await writing
    assert await count_by_another_client(database_url) == 1


async def test_cancelled_waiter_does_not_take_a_turn(database_url: str) -> None:
    async with open_pool(DatabaseSettings(url=database_url, pool_size=1), node=None) as pool:
        async with pool.transaction():
            waiting = [asyncio.create_task(pool.fetchval("SELECT 1")) for _ in range(3)]
            await asyncio.sleep(0)
            waiting[0].cancel()
        waiting[1].cancel()  # its turn has come, but it has not run yet
        assert await waiting[2] == 1
        assert pool.size() == PoolSize(connections=1, idle=1, waiting=0)


async def test_bug_in_a_statement_is_not_reported_as_unavailable(pool: Pool) -> None:
    with pytest.raises(Exception, match="does not exist") as raised:
        await pool.fetch("SELECT * FROM no_such_table")
    assert not isinstance(raised.value, DatabaseUnavailable)


async def test_acquire_timeout_raises_database_unavailable(database_url: str) -> None:
    settings = DatabaseSettings(url=database_url, pool_size=1, acquire_timeout_seconds=0.05)
    async with open_pool(settings, node=None) as pool, pool.transaction():
        with pytest.raises(DatabaseUnavailable):
            await pool.fetchval("SELECT 1")


async def test_size_counts_connections_idle_ones_and_waiting_callers(database_url: str) -> None:
    async with open_pool(DatabaseSettings(url=database_url, pool_size=1), node=None) as pool:
        assert pool.size() == PoolSize(connections=1, idle=1, waiting=0)
        async with pool.transaction():
            waiting = asyncio.create_task(pool.fetchval("SELECT 1"))
            await asyncio.sleep(0)
            assert pool.size() == PoolSize(connections=1, idle=0, waiting=1)
        await waiting


async def test_connections_ended_by_the_server_are_replaced(pool: Pool, database_url: str) -> None:
    assert await pool.fetchval("SELECT 1") == 1
    await end_connections(database_url)
    for _ in range(pool.size().connections):
        with suppress(DatabaseUnavailable):  # each loss may have been noticed by then or not
            await pool.fetchval("SELECT 1")
    assert await pool.fetchval("SELECT 1") == 1


async def test_transaction_with_dead_connection_raises_database_unavailable(
    pool: Pool, database_url: str
) -> None:
    async def write() -> None:
        async with pool.transaction() as connection:
            await connection.execute(INSERT_ORGANIZATION, new_id(), "one", NOW)
            await end_connections(database_url)
            await connection.execute(INSERT_ORGANIZATION, new_id(), "two", NOW)

    with pytest.raises(DatabaseUnavailable):
        await write()
    assert await count_by_another_client(database_url) == 0


async def test_connection_that_dies_at_once_raises_database_unavailable(database_url: str) -> None:
    async with dying_server(database_url) as url:
        with pytest.raises(DatabaseUnavailable):
            async with open_pool(DatabaseSettings(url=url), node=StoredNode(1)):
                pass
        with pytest.raises(DatabaseUnavailable):
            async with connect(url) as connection:
                await connection.fetchval("SELECT 1")


async def test_missing_server_raises_database_unavailable(tmp_path: object) -> None:
    with pytest.raises(DatabaseUnavailable, match="there is no server at /"):
        async with open_pool(DatabaseSettings(url=f"postgresql:///x?host={tmp_path}"), node=None):
            pass


async def test_missing_database_is_named_in_the_error(postgres_url: str) -> None:
    with pytest.raises(DatabaseUnavailable, match="no_such_database"):
        async with connect(postgres_url.replace("/postgres?", "/no_such_database?")):
            pass


@pytest.mark.parametrize("url", ["http://localhost/x", "postgresql://localhost:port/x"])
async def test_malformed_url_is_refused(url: str) -> None:
    with pytest.raises(DatabaseRefused, match="cannot be used"):
        async with connect(url):
            pass


@pytest.mark.parametrize("change", ["state = 'condemned'", "state = 'dead'", "life = gen_random_uuid()"])
async def test_connection_of_a_dead_node_is_refused(database_url: str, change: str) -> None:
    node = await stored_node(database_url)
    async with connect(database_url) as connection:
        await connection.execute(f"UPDATE node SET {change}")  # noqa: S608
    with pytest.raises(NodeEnded, match=f"node {node.node_id} was found dead"):
        async with open_pool(DatabaseSettings(url=database_url), node=node):
            pass


async def test_node_that_leaves_keeps_its_pool(database_url: str) -> None:
    node = await stored_node(database_url)
    async with connect(database_url) as connection:
        await connection.execute("UPDATE node SET state = 'leaving'")
    async with open_pool(DatabaseSettings(url=database_url), node=node) as pool:
        assert await pool.fetchval("SELECT 1") == 1


async def test_each_connection_holds_the_lock_of_its_node(database_url: str) -> None:
    node = await stored_node(database_url)
    count = """
        SELECT count(*) FROM pg_locks JOIN pg_database d ON d.oid = database
        WHERE datname = current_database() AND classid = $1::bigint::oid AND objid = $2::bigint::oid
    """
    async with open_pool(DatabaseSettings(url=database_url, pool_size=2), node=node) as pool:
        await asyncio.gather(*(pool.fetchval("SELECT 1") for _ in range(2)))  # each opens a connection
        for _ in range(3):
            assert await pool.fetchval(count, MEMBER, node.node_id) == 2


async def test_server_on_which_the_node_does_not_beat_is_refused(database_url: str) -> None:
    settings, node = DatabaseSettings(url=database_url), await stored_node(database_url)
    async with connect(database_url) as beat:
        node.backend = beat.get_server_pid()
        with pytest.raises(DatabaseUnavailable, match="not the one on which this node beats"):
            async with open_pool(settings, node=node):
                pass
        await beat.execute("SELECT pg_advisory_lock($1, $2)", NODE, node.node_id)
        async with open_pool(settings, node=node) as pool:
            assert await pool.fetchval("SELECT 1") == 1


async def test_statements_go_on_after_a_migration_by_another_node(database_url: str) -> None:
    select = "SELECT * FROM later WHERE id = $1"

    async def read(connection: Connection) -> list[str]:
        return [key for row in await connection.fetch(select, 1) for key in dict(row)]

    async with open_pool(DatabaseSettings(url=database_url, pool_size=2), node=None) as pool:
        failures: list[DatabaseUnavailable] = []
        pool.on_failure = failures.append
        await pool.execute("CREATE TABLE later AS SELECT 1 AS id")
        try:
            for column in ("first", "second"):
                for _ in range(2):
                    async with pool.transaction() as one, pool.transaction() as other:
                        await read(one)
                        await read(other)
                async with connect(database_url) as another:
                    await another.execute(f"ALTER TABLE later ADD COLUMN {column} integer")
                if column == "first":  # what it had prepared no longer fits
                    assert await pool.write(read, "reading") == ["id", "first"]
                else:
                    assert list(dict((await pool.fetch(select, 1))[0])) == ["id", "first", "second"]
            async with connect(database_url) as another:
                await another.execute("ALTER TABLE later ADD COLUMN third integer")
            with pytest.raises(SchemaChanged):
                async with pool.transaction() as one:
                    await read(one)
        finally:
            await pool.execute("DROP TABLE later")
    assert failures == []


def test_settings_hide_the_url_in_their_repr() -> None:
    assert "secret" not in repr(DatabaseSettings(url="postgresql://ada:secret@db/x"))


def test_settings_without_capacity_or_time_are_refused() -> None:
    with pytest.raises(ValueError, match="pool_size"):
        DatabaseSettings(url="postgresql://db/x", pool_size=0)
    with pytest.raises(ValueError, match="timeouts"):
        DatabaseSettings(url="postgresql://db/x", acquire_timeout_seconds=0)
    with pytest.raises(ValueError, match="timeouts"):
        DatabaseSettings(url="postgresql://db/x", command_timeout_seconds=0)
