"""Migrations: applied once, by one instance, and only if the schema and the version fit together."""

import asyncio
import dataclasses
import gzip
import re

import aiopg
import pytest

from hostsvc.embedded_postgres import EmbeddedPostgres
from storage.errors import DatabaseRefused, SchemaMismatch
from storage.postgres import migrations
from storage.postgres.migrations import ROLLING, Migration, check, migrate, read_migrations, refuse_unsafe
from tests.paths import ROOT
from tests.patience import PATIENCE_SECONDS
from tests.postgres import TestServer, url_as
from tests.storage.postgres.proxies.transaction_pooler import transaction_pooler

NAMES = [migration.name for migration in read_migrations()]

DUMPS = ROOT / "tests" / "storage" / "postgres" / "dumps"

# The checksums of all released migrations. Add those of new ones with each release; never change one. Up to
# 0.2.0 they are of whole files, as the databases remember them: not even a comment may change.
RELEASED = {
    # 0.1.0
    "0001_main_job.sql": "4c652bfdca2dc2cff1d75b8a9e6029df8a790417c490665ecc141b7f61ff9628",
    "0002_contract.sql": "61bb9d440f0bf5574fbe2aafc069f8314420a1fc18dbc391677db9ccc798e4a3",
    # 0.2.0
    "0003_bounded_reads.sql": "6149c7fa8c0718dc5b4929c9c4013728ee8278c9d65df1cb18357dbaafa64590",
    "0004_encryption_keys.sql": "54fac42533012db020b3045308c21e8bb73aafd77f917325f6f62588ceb66a87",
    "0005_instance_leader.sql": "3005d0e24891da8cb8de568be1c37e98330ae07c8406a93eabf712986acfde70",
    "0006_wake_order_and_stop_reasons.sql": (
        "40ec9fb74a4d03f946833c5c91e1f86011470385cf7170926180f97907aa82c1"
    ),
    "0007_list_filters.sql": "64c0d8189ef83f73b949d263071277e869802d7cfba25a5e47fe2fbe3f1edc03",
    "0008_login_networks.sql": "f36fb8c3c292a3be41558618ec9b44664bef74d732a8bb15d7028a4ff8f16f26",
    "0009_assistant_settings.sql": "074f78613fb34e80e219b5c3495159e3bb701cd2fad9160046d54f8f66cfc5a1",
    "0010_shared_resources.sql": "1cab1eb8c0d0e98ff45d518679a1c59a0bba4de483f2cf7c249f5fd73da8f3e7",
    "0011_journals_and_transcripts.sql": "2d503591e866dc7582ac10943e3dd90ae9f9981a8faa1b6401f63840607504cc",
    "0012_memory.sql": "b08ec5920e94aa3d1115b0556481768754268802575202890274a0843cfa3055",
    "0013_content.sql": "2318fae2683ad22bc259258a13b01826cd37042729431525e7fbea64112e30b6",
    "0014_secrets.sql": "4a1d811037b00b3bf549433704868307fc57967eca43f46a047e4b39a6aa6fec",
    "0015_wake.sql": "bd84d0a44421ad4b2252e1b53b259654758e8295c7da8035ba3420fabaa4dcaf",
    "0016_addresses_and_attachments.sql": "ce7156135e9c4639908b668e2b486f9177a62a48b08e9b881acf14d6be84c2c9",
    "0017_events.sql": "0d930448f3ac673959f03c05989997c3ac90ca86b6a1503cd341a464e4a013d8",
    "0018_event_webhooks.sql": "1a17737ff1fa12b9f4a055107f18eef075b1adf6212cc3e1f926580e3a86ef1b",
    "0019_timelines.sql": "478a1ed517b990ab286566f8fdcea49f8326fc8c33451f1b0983d625895ad9d5",
    "0020_events_of_other_programs.sql": "f88a39cede11a452f00522d732145bff740c35e8dce9a16cdb8563d0953a7233",
    "0021_event_functions.sql": "2f64eb2dc74a3ca64035e2cc322d05a8f7d01f586f72db115928cc9c7f824ab3",
    "0022_caps_of_zero.sql": "1b915b5e8483efb1d4671c0b156571fcd363f1927988a2a141eea4243bf0bf5d",
    "0023_span_usage.sql": "f48e2012dc2d167d0515f786a3da09ff000e9d5e29ddd26df3b334c47097951c",
    "0024_overviews.sql": "416e2c96967b11f4aa42acf1ceef7579c4ae06fbd456488cfb7a6d2b6caab4a9",
    "0025_pause_of_an_agent.sql": "4907a83643c8d9c285d71920d85663b48825c4399e9861cd3b1ac19b92178190",
    "0026_usage_sums.sql": "fd50c3795714bf5413ae4d44ed85e3480a4e3b43845377e9935110d8c12beadd",
    "0027_over_budget.sql": "57e177ddea2fd7b41c2c3740f6cfe5482540169c68ef271a45c3fdd6e985da24",
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
    while True:
        async with aiopg.connect(database_url) as connection, connection.cursor() as cursor:
            await cursor.execute("SELECT current_setting(%s)", (setting,))
            if await cursor.fetchone() == ("off",):
                return


async def wait_until_one_waits_for_a_lock(database_url: str) -> None:
    waiting = """
        SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'"""
    while not await count(database_url, waiting):
        pass


def test_migrations_are_numbered_without_gaps() -> None:
    versions = [migration.version for migration in read_migrations()]
    assert versions == list(range(1, len(versions) + 1))


def test_every_sql_file_is_a_migration() -> None:
    folder = ROOT / "storage" / "migrations"
    assert sorted(file.name for file in folder.iterdir() if file.suffix == ".sql") == NAMES


def test_released_migrations_are_unchanged() -> None:
    shipped = {migration.name: migration for migration in read_migrations()}
    changed = [name for name, checksum in RELEASED.items() if not shipped[name].was_applied_as(checksum)]
    assert not changed, (
        f"{changed} differ from their release: every database that has applied them would be refused. "
        "Restore the files, and put the change into a new migration with the next number."
    )


def test_rolling_migrations_only_add() -> None:
    changing = re.compile(
        r"\b(DROP|RENAME|UPDATE|DELETE|ALTER COLUMN|TYPE|REPLACE|VALIDATE)\b", re.IGNORECASE
    )
    rolling = {migration.name: migration.sql for migration in read_migrations() if migration.is_rolling}
    assert "0035_node_counters.sql" in rolling
    assert not [name for name, sql in rolling.items() if changing.search(re.sub("--.*", "", sql))]


# Statements that hold up everybody for as long as a big table is long: they rewrite or read all of it under a
# lock. `NOT VALID` spares a constraint that, and CONCURRENTLY an index (CONTRIBUTING.md, "Add a column").
# A default is read once, and rewrites nothing, unless its function is volatile.
LAST_WITHOUT_RULE = 41
SMALL = {
    "instance": "one row",
    "node": "a row for each process that was started within the retention",
}
COMMENT_OR_BODY = re.compile(r"--[^\n]*|\$\$.*?\$\$", re.DOTALL)
OF_TABLE = re.compile(
    r"\s*(?:ALTER TABLE(?: ONLY)?|UPDATE|DELETE FROM|CREATE (?:UNIQUE )?INDEX.*? ON) (\w+)", re.DOTALL
)
LONG = re.compile(
    r"""^\s*(UPDATE|DELETE)\b | ^\s*CREATE\ (UNIQUE\ )?INDEX\ (?!CONCURRENTLY)
    | \bTYPE\b | \bSET\ NOT\ NULL\b | \bSET\ (LOGGED|UNLOGGED|TABLESPACE)\b
    | \bSTORED\b | \bIDENTITY\b | \bSERIAL\b
    | \bDEFAULT\s+(?!now\(\)|coalesce\(current_setting\('[\w.]+',\ true\),\ ''\))\w+\(
    | \b(CHECK|REFERENCES|FOREIGN\ KEY|UNIQUE|PRIMARY\ KEY)\b(?!.*\bNOT\ VALID\b)""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)


def long_statements(sql: str) -> list[str]:
    """Return the statements that lock a table that was there before, and may be big, for long."""
    created = set(re.findall(r"CREATE TABLE (?:IF NOT EXISTS )?(\w+)", sql))
    statements = COMMENT_OR_BODY.sub("", sql).split(";")
    changed = [(match[1], each) for each in statements if (match := OF_TABLE.match(each))]
    return [each.strip() for table, each in changed if table not in {*created, *SMALL} and LONG.search(each)]


def test_new_migrations_lock_no_big_table_for_long() -> None:
    new = [migration for migration in read_migrations() if migration.version > LAST_WITHOUT_RULE]
    assert new
    found = {migration.name: long_statements(migration.sql) for migration in new}
    assert not {name: statements for name, statements in found.items() if statements}


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE INDEX run_by_x ON run (x)",
        "CREATE UNIQUE INDEX run_by_x\n    ON run (x)",
        "ALTER TABLE run ALTER COLUMN x TYPE bigint",
        "ALTER TABLE run ADD COLUMN y text, ALTER x SET NOT NULL",
        "ALTER TABLE run ADD COLUMN x uuid DEFAULT gen_random_uuid()",
        "ALTER TABLE run ADD COLUMN x text GENERATED ALWAYS AS (lower(y)) STORED",
        "ALTER TABLE run ADD COLUMN x bigint GENERATED ALWAYS AS IDENTITY",
        "ALTER TABLE run ADD CONSTRAINT x_positive CHECK (x > 0)",
        "ALTER TABLE run ADD COLUMN x uuid REFERENCES agent (id)",
        "ALTER TABLE run ADD CONSTRAINT run_x UNIQUE (x)",
        "UPDATE run SET x = 1",
        "DELETE FROM run WHERE x",
    ],
)
def test_statement_that_locks_a_big_table_is_found(statement: str) -> None:
    assert long_statements(f"-- Why.\nCREATE TABLE other (id integer);\n{statement};") == [statement]


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE INDEX CONCURRENTLY run_by_x ON run (x)",
        "ALTER TABLE run ADD COLUMN x text NOT NULL DEFAULT '', ADD COLUMN y timestamptz DEFAULT now()",
        "ALTER TABLE run ADD COLUMN x text DEFAULT coalesce(current_setting('hostsvc.x', true), '')",
        "ALTER TABLE run ADD CONSTRAINT x_positive CHECK (x > 0) NOT VALID",
        "CREATE TABLE other (id uuid PRIMARY KEY CHECK (true)); CREATE INDEX other_id ON other (id)",
        "ALTER TABLE instance ADD COLUMN x integer CHECK (x > 0)",
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN UPDATE run SET x = 1; END $$",
    ],
)
def test_statement_that_locks_nothing_for_long_is_allowed(sql: str) -> None:
    assert long_statements(sql) == []


FILES = """
SELECT relname, relfilenode FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
"""


async def files_of(database_url: str) -> set[tuple[str, int]]:
    async with aiopg.connect(database_url) as connection, connection.cursor() as cursor:
        await cursor.execute(FILES)
        return set(await cursor.fetchall())


async def test_new_migrations_rewrite_no_table(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await migrate_before(NAMES[LAST_WITHOUT_RULE], empty_database_url, monkeypatch)
    before = await files_of(empty_database_url)
    await migrate(empty_database_url)
    assert before <= await files_of(empty_database_url)


ALONE = "-- no transaction\n-- Why.\nCREATE INDEX CONCURRENTLY agent_by_purpose ON agent (purpose);\n"
INDEX = """
SELECT indisvalid FROM pg_index JOIN pg_class c ON c.oid = indexrelid WHERE relname = 'agent_by_purpose'
"""


def plant_index(monkeypatch: pytest.MonkeyPatch) -> str:
    """Ship a migration more that builds an index without a transaction, and return its name."""
    planted = Migration(len(NAMES) + 1, "9999_index.sql", ALONE)
    shipped = [*read_migrations(), planted]
    monkeypatch.setattr(migrations, "read_migrations", lambda: shipped)
    return planted.name


async def is_valid(database_url: str) -> list[bool]:
    async with aiopg.connect(database_url) as connection, connection.cursor() as cursor:
        await cursor.execute(INDEX)
        return [valid for (valid,) in await cursor.fetchall()]


@pytest.mark.own_database
async def test_index_is_built_beside_writers_and_nodes(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = plant_index(monkeypatch)
    async with aiopg.connect(database_url) as writer, writer.cursor() as cursor:
        await cursor.execute("BEGIN; UPDATE agent SET purpose = purpose")
        migrating = [asyncio.create_task(migrate(database_url)) for _ in range(2)]
        await wait_until_one_waits_for_a_lock(database_url)
        await asyncio.wait_for(run(database_url, "UPDATE agent SET purpose = purpose"), PATIENCE_SECONDS)
        await cursor.execute("COMMIT")
        applied = await asyncio.wait_for(asyncio.gather(*migrating), PATIENCE_SECONDS)
    assert sorted(applied) == [[], [name]]
    assert await is_valid(database_url) == [True]


@pytest.mark.own_database
async def test_index_that_a_crash_left_invalid_is_built_again(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = plant_index(monkeypatch)
    async with aiopg.connect(database_url) as writer, writer.cursor() as cursor:
        await cursor.execute("BEGIN; UPDATE agent SET purpose = purpose")
        migrating = asyncio.create_task(migrate(database_url))
        await wait_until_one_waits_for_a_lock(database_url)
        await run(database_url, END_MIGRATOR)
        with pytest.raises(Exception, match="ended the connection"):
            await migrating
        await cursor.execute("COMMIT")
    assert await is_valid(database_url) == [False]

    assert await migrate(database_url) == [name]
    assert await is_valid(database_url) == [True]


END_MIGRATOR = """
SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE 'hostsvc %.sql'
"""


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


def plant(monkeypatch: pytest.MonkeyPatch) -> str:
    """Ship a rolling migration more that changes a table, and return its name."""
    planted = Migration(
        len(NAMES) + 1, "9999_planted.sql", f"{ROLLING}ALTER TABLE agent ADD COLUMN extra text"
    )
    shipped = [*read_migrations(), planted]
    monkeypatch.setattr(migrations, "read_migrations", lambda: shipped)
    return planted.name


async def test_rolling_migration_lets_others_pass_while_it_waits(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = plant(monkeypatch)
    async with aiopg.connect(database_url) as long, long.cursor() as cursor:
        await cursor.execute("BEGIN; SELECT count(*) FROM agent")
        migrating = asyncio.create_task(migrate(database_url))
        await wait_until_one_waits_for_a_lock(database_url)
        await asyncio.wait_for(count(database_url, "SELECT count(*) FROM agent"), PATIENCE_SECONDS)
        assert not migrating.done()
        await cursor.execute("COMMIT")
        assert await asyncio.wait_for(migrating, PATIENCE_SECONDS) == [name]


async def test_rolling_migration_gives_up_and_says_what_to_do(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = plant(monkeypatch)
    monkeypatch.setattr(migrations, "ROLLING_ATTEMPTS", 1)
    async with aiopg.connect(database_url) as long, long.cursor() as cursor:
        await cursor.execute("BEGIN; SELECT count(*) FROM agent")
        with pytest.raises(DatabaseRefused, match=f"{name} cannot be applied: .* end those that pg_stat_act"):
            await migrate(database_url)
    assert await check(database_url) == [name]


@pytest.mark.parametrize("foreign_object", ["TABLE agent (id integer)", "VIEW agent AS SELECT 1 AS id"])
async def test_foreign_database_is_refused_and_left_unchanged(
    empty_database_url: str, foreign_object: str
) -> None:
    await run(empty_database_url, f"CREATE {foreign_object}")
    with pytest.raises(DatabaseRefused, match='"agent" already exists; give the service a database of its'):
        await migrate(empty_database_url)
    assert await check(empty_database_url) == NAMES


@pytest.mark.parametrize(
    ("reworded", "is_same"),
    [
        ("-- Why: it's so.\nCREATE TABLE t (\n    a text DEFAULT ' -- '\n);\n-- The end.", True),
        ("CREATE TABLE t ( a text DEFAULT ' -- ' );", True),
        ("CREATE TABLE t ( a text DEFAULT ' --  ' );", False),
        ("CREATE TABLE t ( b text DEFAULT ' -- ' );", False),
    ],
)
def test_checksum_depends_on_what_runs_only(reworded: str, is_same: bool) -> None:
    written = Migration(1, "0001_t.sql", "CREATE TABLE t ( -- a table\n    a text DEFAULT ' -- '\n);\n")
    assert Migration(1, "0001_t.sql", reworded).was_applied_as(written.checksum) == is_same


async def test_reworded_comment_does_not_stop_an_upgrade(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await migrate_before(NAMES[-1], empty_database_url, monkeypatch)
    reworded = [
        dataclasses.replace(migration, sql=f"-- Say why.\n{migration.sql}") for migration in read_migrations()
    ]
    monkeypatch.setattr(migrations, "read_migrations", lambda: reworded)
    assert await migrate(empty_database_url) == [NAMES[-1]]


SCHEMA = """
SELECT concat_ws(' ', table_name, column_name, data_type, is_nullable, column_default) AS line
FROM information_schema.columns WHERE table_schema = 'public' AND table_name <> 'schema_migration'
UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'
UNION ALL SELECT conrelid::regclass || pg_get_constraintdef(oid)
FROM pg_constraint WHERE conrelid >= 16384 AND contype <> 'n'
UNION ALL SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'public'::regnamespace
UNION ALL SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal
"""


async def schema_of(database_url: str) -> set[str]:
    async with aiopg.connect(database_url) as connection, connection.cursor() as cursor:
        await cursor.execute(SCHEMA)
        return {line for (line,) in await cursor.fetchall()}


def released_versions() -> list[str]:
    return re.findall(r"^## \[(\d+\.\d+\.\d+)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


TABLES = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
NO_ROWS_AT_REST = {"event_of_program"}  # moved by the transaction that inserts them
FILLED_LATER = {"schema_migration"}


async def counts_of(database_url: str) -> dict[str, int]:
    """Return how many rows each table has."""
    async with aiopg.connect(database_url) as connection, connection.cursor() as cursor:
        await cursor.execute(TABLES)
        tables = [name for (name,) in await cursor.fetchall()]
    return {name: await count(database_url, f"SELECT count(*) FROM public.{name}") for name in tables}  # noqa: S608


@pytest.mark.parametrize("version", released_versions())
async def test_database_of_every_release_is_upgraded(
    empty_database_url: str, database_url: str, version: str
) -> None:
    """Each release leaves a dump of a database that it wrote: see "Release" in CONTRIBUTING.md."""
    await run(empty_database_url, gzip.decompress((DUMPS / f"{version}.sql.gz").read_bytes()).decode())
    before = await counts_of(empty_database_url)
    assert {name for name, rows in before.items() if not rows} <= NO_ROWS_AT_REST

    await migrate(empty_database_url)

    assert await check(empty_database_url) == []
    assert await schema_of(empty_database_url) == await schema_of(database_url)
    after = await counts_of(empty_database_url)
    kept = before.keys() - FILLED_LATER
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}


async def test_newer_schema_is_refused_with_the_version_that_wrote_it(database_url: str) -> None:
    await run(
        database_url,
        "INSERT INTO schema_migration (version, name, checksum, hostsvc_version) "
        "VALUES (9999, '9999_later.sql', 'x', '9.1.0')",
    )
    for operation in (migrate, check):
        with pytest.raises(
            SchemaMismatch, match=r"hostsvc 9\.1\.0 applied 9999_later\.sql.*run that version"
        ):
            await operation(database_url)


async def test_migration_that_runs_other_statements_is_refused(database_url: str) -> None:
    await run(database_url, "UPDATE schema_migration SET checksum = 'other' WHERE version = 1")
    for operation in (migrate, check):
        with pytest.raises(SchemaMismatch, match=r"applied 0001_main_job\.sql .* runs other statements"):
            await operation(database_url)


async def test_database_of_an_old_release_is_refused_with_its_version(empty_database_url: str) -> None:
    await run(empty_database_url, gzip.decompress((DUMPS / "0.1.0.sql.gz").read_bytes()).decode())
    await run(empty_database_url, "UPDATE public.schema_migration SET checksum = 'other' WHERE version = 1")
    with pytest.raises(SchemaMismatch, match=r"hostsvc 0\.2\.0 or older applied 0001_main_job\.sql"):
        await check(empty_database_url)


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


async def migrate_before(name: str, database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Apply the migrations before this one, as an older version did."""
    before = read_migrations()[: NAMES.index(name)]
    with monkeypatch.context() as older_version:
        older_version.setattr(migrations, "read_migrations", lambda: before)
        await migrate(database_url)


async def test_upgrade_sums_up_older_usage(empty_database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await migrate_before("0026_usage_sums.sql", empty_database_url, monkeypatch)
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
    await migrate_before("0026_usage_sums.sql", empty_database_url, monkeypatch)

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
    await migrate_before("0016_addresses_and_attachments.sql", empty_database_url, monkeypatch)
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
    await migrate_before("0003_bounded_reads.sql", empty_database_url, monkeypatch)
    await run(empty_database_url, OLD_ROWS)

    await migrate(empty_database_url)

    async with aiopg.connect(empty_database_url) as connection, connection.cursor() as cursor:
        await cursor.execute("SELECT cardinality(notifications), notifications_left_out FROM run ORDER BY 1")
        assert await cursor.fetchall() == [(2, 0), (1000, 500)]
    assert await count(empty_database_url, "SELECT span_count FROM trace_size") == 7
