"""Migrations: applied once, by one instance, and only if the schema and the version fit together."""

import asyncio

import aiopg
import pytest

from hostsvc.embedded_postgres import EmbeddedPostgres
from storage.errors import DatabaseRefused, SchemaMismatch
from storage.postgres import migrations
from storage.postgres.migrations import check, migrate, read_migrations, refuse_unsafe
from tests.paths import ROOT
from tests.postgres import TestServer, url_as
from tests.storage.postgres.proxies.transaction_pooler import transaction_pooler

NAMES = [migration.name for migration in read_migrations()]

# The checksums of all released migrations. Add those of new migrations with each release; never change one.
RELEASED = {
    "0001_main_job.sql": "4c652bfdca2dc2cff1d75b8a9e6029df8a790417c490665ecc141b7f61ff9628",  # 0.1.0
    "0002_contract.sql": "61bb9d440f0bf5574fbe2aafc069f8314420a1fc18dbc391677db9ccc798e4a3",  # 0.1.0
}


async def run(database_url: str, sql: str) -> None:
    async with aiopg.connect(database_url) as connection, connection.cursor() as cursor:
        await cursor.execute(sql)


async def count(database_url: str, sql: str) -> int:
    async with aiopg.connect(database_url) as connection, connection.cursor() as cursor:
        await cursor.execute(sql)
        (number,) = await cursor.fetchone()
        return int(number)


async def wait_until_off(database_url: str, setting: str) -> None:
    """Wait until the server has reloaded its settings, which takes a moment."""
    async with asyncio.timeout(20):
        while True:
            async with aiopg.connect(database_url) as connection, connection.cursor() as cursor:
                await cursor.execute("SELECT current_setting(%s)", (setting,))
                if await cursor.fetchone() == ("off",):
                    return


async def wait_until_one_waits_for_a_lock(database_url: str) -> None:
    waiting = """
        SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'"""
    async with asyncio.timeout(20):
        while True:
            if await count(database_url, waiting):
                return


def test_migrations_are_numbered_without_gaps() -> None:
    versions = [migration.version for migration in read_migrations()]
    assert versions == list(range(1, len(versions) + 1))


def test_every_sql_file_is_a_migration() -> None:
    folder = ROOT / "storage" / "migrations"
    assert sorted(file.name for file in folder.iterdir() if file.suffix == ".sql") == NAMES


def test_released_migrations_are_unchanged() -> None:
    checksums = {migration.name: migration.checksum for migration in read_migrations()}
    changed = [name for name, checksum in RELEASED.items() if checksums.get(name) != checksum]
    assert not changed, (
        f"{changed} differ from their release: every database that has applied them would be refused. "
        "Restore the files, and put the change into a new migration with the next number."
    )


async def test_empty_database_gets_all_migrations_once(empty_database_url: str) -> None:
    assert await check(empty_database_url) == NAMES
    assert await migrate(empty_database_url) == NAMES
    assert await check(empty_database_url) == []
    assert await migrate(empty_database_url) == []
    assert await count(empty_database_url, "SELECT count(*) FROM instance") == 1


async def test_check_changes_nothing(empty_database_url: str) -> None:
    await check(empty_database_url)
    assert await count(empty_database_url, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == 0


async def test_only_one_of_several_concurrent_starts_migrates(empty_database_url: str) -> None:
    applied = await asyncio.gather(*(migrate(empty_database_url) for _ in range(4)))
    assert sorted(applied) == [[], [], [], NAMES]


async def test_failed_migration_is_rolled_back(empty_database_url: str) -> None:
    await run(
        empty_database_url, "CREATE TABLE span (id integer)"
    )  # conflicts with the last part of the migration
    with pytest.raises(Exception, match='relation "span" already exists'):
        await migrate(empty_database_url)
    assert await check(empty_database_url) == NAMES
    assert await count(empty_database_url, "SELECT count(*) FROM pg_tables WHERE tablename = 'agent'") == 0


@pytest.mark.parametrize("foreign_object", ["TABLE agent (id integer)", "VIEW agent AS SELECT 1 AS id"])
async def test_foreign_database_is_refused_and_left_unchanged(
    empty_database_url: str, foreign_object: str
) -> None:
    await run(empty_database_url, f"CREATE {foreign_object}")
    with pytest.raises(DatabaseRefused, match='"agent" already exists; give the service a database of its'):
        await migrate(empty_database_url)
    assert await check(empty_database_url) == NAMES


async def test_newer_schema_is_refused_by_name(database_url: str) -> None:
    await run(
        database_url,
        "INSERT INTO schema_migration (version, name, checksum) VALUES (9999, '9999_later.sql', 'x')",
    )
    for operation in (migrate, check):
        with pytest.raises(SchemaMismatch, match=r"9999_later\.sql.*does not know"):
            await operation(database_url)


async def test_migration_changed_after_being_applied_is_refused(database_url: str) -> None:
    await run(database_url, "UPDATE schema_migration SET checksum = 'other' WHERE version = 1")
    for operation in (migrate, check):
        with pytest.raises(SchemaMismatch, match=r"0001_main_job\.sql differs from the one applied"):
            await operation(database_url)


async def test_role_without_create_privilege_is_refused(
    empty_database_url: str, postgres_server: TestServer
) -> None:
    with postgres_server.role() as role, pytest.raises(DatabaseRefused, match="permission denied"):
        await migrate(url_as(empty_database_url, role))


async def test_durable_database_is_accepted(database_url: str) -> None:
    await refuse_unsafe(database_url)


async def test_server_with_fsync_off_is_refused(own_server: EmbeddedPostgres) -> None:
    url = await asyncio.to_thread(own_server.start)
    await run(url, "ALTER SYSTEM SET fsync = off")
    await run(url, "SELECT pg_reload_conf()")
    await wait_until_off(url, "fsync")
    with pytest.raises(DatabaseRefused, match="fsync is off"):
        await refuse_unsafe(url)


@pytest.mark.parametrize(
    "scope", ["DATABASE {database}", "ROLE {role}", "ROLE {role} IN DATABASE {database}"]
)
async def test_synchronous_commit_off_is_refused_wherever_it_is_set(
    empty_database_url: str, postgres_server: TestServer, scope: str
) -> None:
    with postgres_server.role() as role:
        target = scope.format(database=empty_database_url.split("?")[0].rsplit("/")[-1], role=role)
        await run(empty_database_url, f"ALTER {target} SET synchronous_commit = off")
        with pytest.raises(DatabaseRefused, match="synchronous_commit is off"):
            await refuse_unsafe(url_as(empty_database_url, role))


async def test_url_with_synchronous_commit_off_is_refused(database_url: str) -> None:
    with pytest.raises(DatabaseRefused, match="synchronous_commit is off"):
        await refuse_unsafe(f"{database_url}&synchronous_commit=off")


async def test_transaction_pooling_proxy_is_refused(database_url: str) -> None:
    async with transaction_pooler(database_url) as proxied_url:
        with pytest.raises(DatabaseRefused, match="transaction-pooling proxy"):
            await refuse_unsafe(proxied_url)


async def test_proxy_without_support_for_our_settings_is_refused(database_url: str) -> None:
    async with transaction_pooler(database_url, refuse_settings=True) as proxied_url:
        with pytest.raises(DatabaseRefused, match="unsupported startup parameter"):
            await refuse_unsafe(proxied_url)


OLD_ROWS = """
INSERT INTO run (id, agent_id, organization_id, wake_reason, notifications, started_at)
SELECT gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'reminder',
       ARRAY(SELECT gen_random_uuid() FROM generate_series(1, n)), now()
FROM (VALUES (2), (1500)) AS v (n);
INSERT INTO span (id, trace_id, name, started_at)
SELECT gen_random_uuid(), '00000000-0000-4000-8000-000000000000', 'step', now() FROM generate_series(1, 7)
"""


OLD_CONTACTS = """
INSERT INTO organization (id, name, created_at)
VALUES ('00000000-0000-4000-8000-000000000000', 'Acme', now());
INSERT INTO contact (id, organization_id, name, email, phone, created_at)
SELECT gen_random_uuid(), '00000000-0000-4000-8000-000000000000', v.name, v.email, v.phone, v.created_at
FROM (VALUES
    ('second', 'Ada@example.org', '+43 (0)1 234-56', timestamptz '2026-01-02T00:00Z'),
    ('first', 'ada@Example.org', '01 23456', timestamptz '2026-01-01T00:00Z'),
    ('third', '', 'tel:+43/123456', timestamptz '2026-01-03T00:00Z'),
    ('fourth', '', '12345', timestamptz '2026-01-03T00:00Z'),
    ('none', '', '', timestamptz '2026-01-03T00:00Z')
) AS v (name, email, phone, created_at)
"""
ADDRESSES = """
SELECT d.address, c.name FROM contact_address d JOIN contact c ON c.id = d.contact_id ORDER BY d.address
"""


OLD_USAGE = """
INSERT INTO usage_record (
    id, organization_id, agent_id, model, input_tokens, output_tokens, cost_usd, priced, occurred_at)
SELECT gen_random_uuid(), '00000000-0000-4000-8000-000000000000', '00000000-0000-4000-8000-000000000001',
       'm', n, 1, 0.5, n > 1, timestamptz '2026-01-02T00:30Z' + n * interval '30 min'
FROM generate_series(1, 4) AS n
"""


async def test_upgrade_sums_up_older_usage(empty_database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [migration.name for migration in read_migrations()]
    before = read_migrations()[: names.index("0026_usage_sums.sql")]
    with monkeypatch.context() as older_version:
        older_version.setattr(migrations, "read_migrations", lambda: before)
        await migrate(empty_database_url)
    await run(empty_database_url, OLD_USAGE)

    await migrate(empty_database_url)

    async with aiopg.connect(empty_database_url) as connection, connection.cursor() as cursor:
        await cursor.execute(
            "SELECT calls, unpriced_calls, input_tokens, cost_usd FROM usage_hour ORDER BY hour"
        )
        assert await cursor.fetchall() == [(2, 1, 3, 1), (2, 0, 7, 1)]
        await cursor.execute("SELECT day::text, calls, input_tokens FROM usage_day")
        assert await cursor.fetchall() == [("2026-01-02", 4, 10)]


async def test_upgrade_sums_up_usage_that_is_being_stored(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [migration.name for migration in read_migrations()]
    before = read_migrations()[: names.index("0026_usage_sums.sql")]
    with monkeypatch.context() as older_version:
        older_version.setattr(migrations, "read_migrations", lambda: before)
        await migrate(empty_database_url)

    async with aiopg.connect(empty_database_url) as connection, connection.cursor() as cursor:
        await cursor.execute("BEGIN")
        await cursor.execute(OLD_USAGE)
        upgrade = asyncio.create_task(migrate(empty_database_url))
        await wait_until_one_waits_for_a_lock(empty_database_url)
        await cursor.execute("COMMIT")
        await upgrade

    assert await count(empty_database_url, "SELECT sum(calls) FROM usage_hour") == 4
    assert await count(empty_database_url, "SELECT sum(calls) FROM usage_day") == 4


async def test_upgrade_gives_each_address_to_the_oldest_contact(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [migration.name for migration in read_migrations()]
    before = read_migrations()[: names.index("0016_addresses_and_attachments.sql")]
    with monkeypatch.context() as older_version:
        older_version.setattr(migrations, "read_migrations", lambda: before)
        await migrate(empty_database_url)
    await run(empty_database_url, OLD_CONTACTS)

    await migrate(empty_database_url)

    async with aiopg.connect(empty_database_url) as connection, connection.cursor() as cursor:
        await cursor.execute(ADDRESSES)
        assert await cursor.fetchall() == [
            ("+43123456", "second"),
            ("12345", "fourth"),
            ("ada@example.org", "first"),
        ]
    assert await count(empty_database_url, "SELECT count(*) FROM contact") == 5


async def test_upgrade_counts_the_spans_and_notifications_of_older_rows(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first_two = read_migrations()[:2]
    with monkeypatch.context() as older_version:
        older_version.setattr(migrations, "read_migrations", lambda: first_two)
        await migrate(empty_database_url)
    await run(empty_database_url, OLD_ROWS)

    await migrate(empty_database_url)

    async with aiopg.connect(empty_database_url) as connection, connection.cursor() as cursor:
        await cursor.execute("SELECT cardinality(notifications), notifications_left_out FROM run ORDER BY 1")
        assert await cursor.fetchall() == [(2, 0), (1000, 500)]
    assert await count(empty_database_url, "SELECT span_count FROM trace_size") == 7
