"""Backups: one snapshot in a file, restored as a paused instance; and the one before a migration."""

import gzip
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from hostsvc import backup
from hostsvc.backup import HEADER, KEPT, Header, back_up, migrate_safely, read_header, restore
from hostsvc.config import DatabaseChoice
from hostsvc.embedded_postgres import embedded_postgres
from storage.errors import DatabaseRefused, NodesRemain, SchemaMismatch
from storage.events.model import INSTANCE
from storage.parked_calls import CallState
from storage.postgres.migrations import check, migrate, read_migrations
from storage.postgres.pool import DatabaseSettings, Pool, open_pool
from storage.restored import find, read_sql
from storage.storage import Storage
from supervisors.clock import SystemClock
from tests.paths import ROOT
from tests.postgres import TestServer, url_as
from tests.storage.factories import (
    HOUR,
    NOW,
    adapter,
    new_notification,
    parked_call,
    schedule,
    stored_agent,
    tool,
)

LAST = read_migrations()[-1].name
NOBODY = "00000000-0000-4000-8000-000000000000"
MADE = "2126-11-21 09:00 UTC"
RELEASED = ROOT / "tests" / "storage" / "postgres" / "dumps" / "0.2.0.sql.gz"
OTHER_POSTGRES = Path("/usr/lib/postgresql/15/bin")

TABLES = """
SELECT relname FROM pg_class
WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace ORDER BY relname
"""
INSERT_NODE = """
INSERT INTO node (life, name, version, protocol, roles) VALUES (gen_random_uuid(), 'a', '', 1, '{}')
"""
INSERT_DELIVERY = """
INSERT INTO webhook_delivery (id, organization_id, url, payload, created_at, next_attempt_at)
VALUES (gen_random_uuid(), $1, 'https://example.org/', '{}', $2, $2)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "backup.sql.gz"


@pytest.fixture
async def storage(pool: Pool) -> Storage:
    """A storage with an agent that has something of each kind that is due an hour after NOW."""
    storage = Storage(pool, on_commit=lambda _: None, sleep=SystemClock().sleep)
    scout = await stored_agent(pool, name="Scout")
    await storage.notifications.insert(new_notification(scout.id), {scout.organization_id})
    await storage.schedules.insert(schedule(scout, due_at=NOW, next_at=NOW))
    mail = adapter(scout.organization_id)
    refund = tool(mail.id)
    await storage.adapters.insert(mail)
    await storage.tools.insert(refund)
    call = parked_call(scout, tool_id=refund.id, state=CallState.DUE, due_at=NOW)
    await storage.parked_calls.insert(call)
    await pool.execute(INSERT_NODE)
    await pool.execute(INSERT_DELIVERY, scout.organization_id, NOW)
    return storage


def files_in(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


async def rows(url: str, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    connection = await asyncpg.connect(url)
    try:
        return [tuple(row) for row in await connection.fetch(sql, *values)]
    finally:
        await connection.close()


async def counts(url: str) -> dict[str, int]:
    """Return how many rows each table has, without what a restore records."""
    tables = [name for (name,) in await rows(url, TABLES)]
    found = {name: (await rows(url, f"SELECT count(*) FROM {name}"))[0][0] for name in tables}  # noqa: S608
    if "event" in found:
        [(acts,)] = await rows(url, "SELECT count(*) FROM event WHERE organization_id = $1", INSTANCE)
        found["event"] -= acts
    return found


@pytest.mark.usefixtures("storage")
async def test_restored_database_has_the_rows_of_the_backup(
    database_url: str, empty_database_url: str, file: Path
) -> None:
    header = await back_up(database_url, file, NOW)

    assert header == read_header(file) == await restore(empty_database_url, file, NOW + HOUR)
    assert (header.migration, header.made_at) == (LAST, MADE)
    assert await counts(empty_database_url) == await counts(database_url)
    assert os.stat(file).st_mode & 0o777 == 0o600
    assert os.listdir(file.parent) == [file.name]


@pytest.mark.usefixtures("storage")
async def test_restored_instance_is_paused_and_says_what_follows(
    database_url: str, empty_database_url: str, file: Path
) -> None:
    await back_up(database_url, file, NOW)
    await restore(empty_database_url, file, NOW + HOUR)

    [instance] = await rows(empty_database_url, "SELECT paused_at, paused_because FROM instance")
    assert instance == (NOW + HOUR, f"it was restored from a backup of {MADE}")
    acts = "SELECT actor, organization_id, data->>'action' FROM event WHERE at = $1 ORDER BY id"
    by_operator = [("operator", INSTANCE, "restored"), ("operator", INSTANCE, "paused")]
    assert await rows(empty_database_url, acts, NOW + HOUR) == by_operator
    assert await rows(empty_database_url, "SELECT state FROM node") == [("dead",)]
    assert await rows(empty_database_url, "SELECT state FROM parked_call") == [("calling",)]
    async with open_pool(DatabaseSettings(url=empty_database_url), node=None) as pool:
        storage = Storage(pool, on_commit=lambda _: None, sleep=SystemClock().sleep)
        assert await storage.outbox.list_due(NOW + HOUR, limit_per_receiver=5, limit=5) == []
        async with pool.transaction() as connection:
            following, breaches = await find(connection, "following"), await find(connection, "breaches")
    assert list(following.values()) == [
        ["Scout"],
        [],
        ["Morning figures"],
        ["https://example.org/"],
        ["refund"],
    ]
    assert len(breaches) == read_sql("breaches").count(";")
    assert not any(breaches.values())


BREAKING = {
    "I1": "UPDATE agent_state SET run_id = gen_random_uuid(), status = 'running'",
    "I2": "DELETE FROM agent_state",
    "I6": "UPDATE notification SET scheduled_for = '2200-01-01', activated_at = '2200-01-01'",
    "I7": "UPDATE notification SET organization_id = (SELECT id FROM organization WHERE name = 'Other')",
    "I8": "SELECT setval('event_id_seq', 1)",
    "I10": "UPDATE parked_call SET due_at = NULL",
}


@pytest.mark.own_database
@pytest.mark.usefixtures("storage")
@pytest.mark.parametrize("invariant", BREAKING)
async def test_broken_invariant_is_found(pool: Pool, invariant: str) -> None:
    await pool.execute("UPDATE instance SET paused_at = $1", NOW)
    await pool.execute(
        "INSERT INTO organization (id, name, created_at) VALUES ($1, 'Other', $2)", NOBODY, NOW
    )
    await pool.execute("SET session_replication_role = replica; " + BREAKING[invariant])
    async with pool.transaction() as connection:
        breaches = await find(connection, "breaches")
    assert {name.split(":")[0] for name, ids in breaches.items() if ids} == {invariant}


async def test_failed_backup_leaves_the_last_one(
    database_url: str, postgres_server: TestServer, file: Path
) -> None:
    with open(file, "wb") as last:  # noqa: ASYNC230
        last.write(b"the last one")
    with postgres_server.role() as role, pytest.raises(DatabaseRefused, match="permission denied"):
        await back_up(url_as(database_url, role), file, NOW)
    assert os.stat(file).st_size == len(b"the last one")
    assert os.listdir(file.parent) == [file.name]


async def test_truncated_backup_restores_nothing(
    database_url: str, empty_database_url: str, file: Path
) -> None:
    await back_up(database_url, file, NOW)
    os.truncate(file, os.stat(file).st_size - 1000)
    with pytest.raises(DatabaseRefused, match=r"is damaged: .*; nothing was restored"):
        await restore(empty_database_url, file, NOW)
    assert await counts(empty_database_url) == {}


async def test_backup_with_a_failing_statement_restores_nothing(
    database_url: str, empty_database_url: str, file: Path
) -> None:
    await back_up(database_url, file, NOW)
    with gzip.open(file, "ab") as end:
        end.write(b"SELECT 1 / 0;\n")
    with pytest.raises(DatabaseRefused, match="division by zero"):
        await restore(empty_database_url, file, NOW)
    assert await counts(empty_database_url) == {}


async def test_database_with_tables_is_not_overwritten(database_url: str, file: Path) -> None:
    await back_up(database_url, file, NOW)
    with pytest.raises(DatabaseRefused, match="the database is not empty"):
        await restore(database_url, file, NOW)


async def test_empty_database_has_no_backup(empty_database_url: str, file: Path) -> None:
    with pytest.raises(DatabaseRefused, match="nothing to back up"):
        await back_up(empty_database_url, file, NOW)


@pytest.mark.parametrize(
    "content", [b"", b"SELECT 1;", gzip.compress(b"SELECT 1;\n"), gzip.compress(b"{}")], ids=range(4)
)
def test_other_file_is_refused(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    with pytest.raises(DatabaseRefused, match="was not written by hostsvc backup"):
        read_header(file)


def test_backup_of_a_newer_version_is_refused_by_both_versions(file: Path) -> None:
    first = f'{HEADER}{{"version": "9.1.0", "migration": "9999_later.sql", "made_at": "today"}}\n'
    file.write_bytes(gzip.compress(first.encode()))
    with pytest.raises(SchemaMismatch, match=r"by hostsvc 9\.1\.0 with .*9999_later\.sql.*hostsvc \d"):
        read_header(file)


def test_password_is_not_in_the_command() -> None:
    command, environment = backup._program("psql", "postgresql://ann:secret@db.example/main", 18)
    assert "secret" not in " ".join(command)
    assert environment["PGPASSWORD"] == "secret"
    assert command[1] == "--dbname=user=ann dbname=main host=db.example"


def test_server_newer_than_all_programs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(DatabaseRefused, match="no pg_dump for PostgreSQL 99: install its client programs"):
        backup._program("pg_dump", "postgresql://", 99)


@pytest.fixture
def other_postgres(data_dir: Path) -> Iterator[str]:
    """A server of PostgreSQL 15, as Debian 12 has it."""
    if not OTHER_POSTGRES.exists():
        pytest.skip("there is no PostgreSQL 15")
    cluster = data_dir / "fifteen"
    cluster.mkdir(mode=0o700)
    options: dict[str, Any] = {"check": True, "cwd": cluster, "stdout": subprocess.DEVNULL}
    if os.geteuid() == 0:
        os.chown(cluster, 65534, 65534)
        options |= {"user": 65534, "group": 65534}
    subprocess.run(
        [OTHER_POSTGRES / "initdb", "-D", cluster, "-U", "postgres", "-A", "trust", "-E", "UTF8"], **options
    )
    settings = f"-c listen_addresses= -c unix_socket_directories={cluster} -c fsync=on"
    control: list[str | Path] = [OTHER_POSTGRES / "pg_ctl", "-D", cluster, "-l", cluster / "log"]
    subprocess.run([*control, "-o", settings, "-w", "start"], **options)
    yield f"postgresql://postgres@/postgres?host={cluster}"
    subprocess.run([*control, "-m", "immediate", "stop"], **options)


@pytest.mark.usefixtures("storage")
async def test_backup_moves_to_an_older_server_and_back(
    database_url: str, empty_database_url: str, other_postgres: str, file: Path
) -> None:
    await back_up(database_url, file, NOW)
    await restore(other_postgres, file, NOW)
    assert await counts(other_postgres) == await counts(database_url)
    await back_up(other_postgres, file, NOW)
    await restore(empty_database_url, file, NOW)
    assert await counts(empty_database_url) == await counts(database_url)


@pytest.fixture
async def old_embedded(data_dir: Path) -> AsyncIterator[tuple[DatabaseChoice, str]]:
    """The embedded database of an instance of 0.2.0."""
    async with embedded_postgres(data_dir, SystemClock()) as url:
        connection = await asyncpg.connect(url)
        await connection.execute(gzip.decompress(RELEASED.read_bytes()).decode())
        await connection.close()
        yield DatabaseChoice(data_dir=data_dir), url


async def test_embedded_database_is_backed_up_before_a_migration(
    old_embedded: tuple[DatabaseChoice, str], empty_database_url: str
) -> None:
    database, url = old_embedded
    assert LAST in await migrate_safely(database, url, NOW)

    [made] = files_in(database.data_dir / "backups")
    assert made.name == "2126-11-21T09-00-00Z-before-0028.sql.gz"
    assert read_header(made) == Header("0.2.0 or older", "0027_over_budget.sql", MADE)
    assert await migrate_safely(database, url, NOW) == []
    await restore(empty_database_url, made, NOW)
    assert await check(empty_database_url) == []
    assert await rows(empty_database_url, "SELECT paused_at FROM instance") == [(NOW,)]
    assert await rows(empty_database_url, "SELECT count(*) FROM agent") == [(3,)]


async def test_older_version_names_both_versions_and_the_backup(
    old_embedded: tuple[DatabaseChoice, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    database, url = old_embedded
    await migrate_safely(database, url, NOW)
    [made] = files_in(database.data_dir / "backups")
    older = read_migrations()[:30]
    monkeypatch.setattr("storage.postgres.migrations.read_migrations", lambda: older)
    with pytest.raises(
        SchemaMismatch, match=rf"hostsvc \S+ applied 0031_.* hostsvc \S+ does .*restore {made}$"
    ):
        await migrate(url)


async def test_refused_migration_makes_no_backup(
    old_embedded: tuple[DatabaseChoice, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    database, url = old_embedded
    await migrate(url)
    await rows(url, INSERT_NODE)
    shipped = read_migrations()
    breaking = replace(shipped[-1], version=9999, name="9999_planted.sql", sql="ALTER TABLE agent ADD x text")
    monkeypatch.setattr("storage.postgres.migrations.read_migrations", lambda: [*shipped, breaking])
    with pytest.raises(NodesRemain):
        await migrate_safely(database, url, NOW)
    assert not (database.data_dir / "backups").exists()


async def test_only_the_newest_automatic_backups_are_kept(
    old_embedded: tuple[DatabaseChoice, str], tmp_path: Path
) -> None:
    database, url = old_embedded
    folder = database.data_dir / "backups"
    folder.mkdir()
    for day in range(1, 6):
        (folder / f"2026-01-0{day}T12-00-00Z-before-0001.sql.gz").touch()
    (folder / "mine.sql.gz").touch()
    await migrate_safely(database, url, NOW + timedelta(days=1))
    assert len(list(folder.iterdir())) == KEPT + 1
    assert (folder / "mine.sql.gz").exists()


async def test_configured_server_is_not_backed_up_by_itself(empty_database_url: str, data_dir: Path) -> None:
    database = replace(DatabaseChoice(data_dir=data_dir), url=empty_database_url)
    await migrate_safely(database, empty_database_url, NOW)
    assert not (data_dir / "backups").exists()
