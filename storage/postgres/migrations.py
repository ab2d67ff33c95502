"""Migrations to this version's schema, and the refusal of databases on which commits are not safe."""

import hashlib
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import asyncpg
import structlog

from storage.errors import DatabaseRefused, SchemaMismatch
from storage.postgres.connections import MIGRATION, SERVER_SETTINGS, Connection, connect
from storage.postgres.node import read_living, refuse_beside

MIN_SERVER_VERSION = 150000
ANSWER_SECONDS = 10.0  # for what changes nothing; a migration may take as long as it needs

VERSION = version("hostsvc")
# Up to 0.2.0 a checksum was that of the whole file. These are of files whose comments were then reworded.
REWORDED = frozenset(
    {
        "c5a10a859f255fe8ad3e97674a319017c9c3dff2a002b0fe1c4b28d4be670c81",
        "ef8d097b51d358bce337fec469710c5280ad52f583f64b2b18bdac1a40d530d0",
    }
)

ROLLING = "-- rolling\n"  # the first line of a migration that only adds
# While it waits for a lock, everything queues behind it: so it waits briefly, and often. It gives up before
# PostgreSQL looks for a deadlock with a node, after a second.
ROLLING_ATTEMPTS = 40
BRIEF_WAIT = "SET LOCAL lock_timeout = '500ms'"
REST = "SELECT pg_sleep(1)"  # for those that have queued

BackUp = Callable[[str], Awaitable[Path]]  # before the migration of this name
_log = structlog.get_logger(__name__)

_FILE_NAME = re.compile(r"(\d{4})_(\w+)\.sql")
_INDEX_ALONE = re.compile(r"-- no transaction\n(?:--[^\n]*\n)*CREATE (?:UNIQUE )?INDEX CONCURRENTLY (\w+) ")
_STRING_OR_GAP = re.compile(r"('[^']*')|(?:--[^\n]*|\s)+")


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered step of the schema."""

    version: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """The SHA-256 of what runs, whatever its comments and its layout are."""
        return _sha256(_STRING_OR_GAP.sub(lambda match: match[1] or " ", self.sql).strip())

    @property
    def is_rolling(self) -> bool:
        """Return whether nodes that do not know this migration may live while it is applied, and after."""
        return self.sql.startswith(ROLLING) or bool(self.index)

    @property
    def index(self) -> str:
        """Return the index that this migration builds alone, without a transaction; "" if it does not."""
        match = _INDEX_ALONE.match(self.sql)
        return match[1] if match else ""

    def was_applied_as(self, checksum: str) -> bool:
        """Return whether a database that remembers this checksum has applied the same statements."""
        return checksum in {self.checksum, _sha256(self.sql)} or checksum in REWORDED


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def read_migrations() -> list[Migration]:
    """Return the migrations that this version ships, oldest first."""
    migrations = []
    for file in files("storage").joinpath("migrations").iterdir():
        match = _FILE_NAME.fullmatch(file.name)
        if match:
            migrations.append(Migration(int(match[1]), file.name, file.read_text(encoding="utf-8")))
    return sorted(migrations, key=lambda migration: migration.version)


async def migrate(url: str, back_up: BackUp | None = None) -> list[str]:
    """Apply the missing migrations, each in its own transaction. Return the names of those applied.

    `back_up` makes a file before the first of them changes a database that is not empty. An older version
    names the file when it refuses the database. Raise NodesRemain if one is not
    rolling and nodes live. All of them are of an older version, as a node migrates before it joins.
    """
    async with connect(url) as connection:
        return await _apply(connection, read_migrations(), back_up)


async def check(url: str) -> list[str]:
    """Return the names of the pending migrations. Change nothing."""
    async with connect(url) as connection:
        return await list_pending(connection)


async def list_pending(connection: Connection) -> list[str]:
    """Return the names of the pending migrations."""
    return [migration.name for migration in await _pending(connection, read_migrations())]


TRY_LOCK = "SELECT pg_try_advisory_lock($1, $2)"

CREATE_LEDGER = """
    CREATE TABLE IF NOT EXISTS schema_migration (
        version integer PRIMARY KEY,
        name text NOT NULL,
        checksum text NOT NULL,
        applied_at timestamptz NOT NULL DEFAULT now()
    );
    ALTER TABLE schema_migration
        ADD COLUMN IF NOT EXISTS hostsvc_version text NOT NULL DEFAULT '0.2.0 or older',
        ADD COLUMN IF NOT EXISTS backup text NOT NULL DEFAULT ''
"""

INSERT_APPLIED = """
    INSERT INTO schema_migration (version, name, checksum, hostsvc_version, backup)
    VALUES ($1, $2, $3, $4, $5)
"""


async def _apply(
    connection: Connection, migrations: Sequence[Migration], back_up: BackUp | None
) -> list[str]:
    # Held until the connection closes: if several instances start at once, one migrates and the others find
    # nothing pending.
    if migrator := await find_migrator(connection):
        _log.warning("waiting until a migration of the database has ended", by=migrator)
    # A statement that waits for the lock would have a snapshot, for whose end an index CONCURRENTLY waits.
    while not await connection.fetchval(TRY_LOCK, *MIGRATION):
        await connection.execute(REST)
    pending = await _pending(connection, migrations)
    if not pending:
        return []
    if breaking := [migration.name for migration in pending if not migration.is_rolling]:
        refuse_beside(await read_living(connection), f"{breaking[0]} cannot be applied")
    is_empty = len(pending) == len(migrations)
    backup = str(await back_up(pending[0].name)) if back_up and not is_empty else ""
    await connection.execute(CREATE_LEDGER)
    for migration in pending:
        await connection.execute(SET_NAME, f"{MIGRATOR}{VERSION}: {migration.name}")
        await _apply_one(connection, migration, backup)
    return [migration.name for migration in pending]


async def _apply_one(connection: Connection, migration: Migration, backup: str) -> None:
    """Apply a migration. Raise DatabaseRefused if it cannot be, also if others never let go of a table."""
    applied = migration.version, migration.name, migration.checksum, VERSION, backup
    if migration.index:
        # A crash may have left it invalid, or complete but not recorded.
        await connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {migration.index}")
        await connection.execute(migration.sql)
        await connection.execute(INSERT_APPLIED, *applied)
        return
    for _ in range(ROLLING_ATTEMPTS):
        try:
            async with connection.transaction():
                if migration.is_rolling:
                    await connection.execute(BRIEF_WAIT)
                await connection.execute(migration.sql)
                await connection.execute(INSERT_APPLIED, *applied)
                return
        except asyncpg.DuplicateTableError as error:
            raise DatabaseRefused(
                f"{migration.name} cannot be applied: {error}; give the service a database of its own"
            ) from error
        except asyncpg.LockNotAvailableError as error:
            _log.info("migration waits for a lock", migration=migration.name, reason=str(error))
            await connection.execute(REST)
    raise DatabaseRefused(
        f"{migration.name} cannot be applied: transactions of other sessions hold locks that it needs; "
        "end those that pg_stat_activity shows to be old, and start again"
    )


# The name that a migrating connection has in pg_stat_activity, where others find it.
MIGRATOR = "hostsvc "
SET_NAME = "SELECT set_config('application_name', $1, false)"
FIND_MIGRATOR = """
    SELECT concat_ws(' from ', application_name, host(client_addr))
    FROM pg_locks JOIN pg_stat_activity USING (pid)
    WHERE locktype = 'advisory' AND granted AND classid = $1 AND objid = $2 AND objsubid = 2
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND application_name LIKE $3 || '%.sql%'
"""


async def find_migrator(connection: Connection) -> str:
    """Return who is migrating the database to what; blank if nobody is."""
    return await connection.fetchval(FIND_MIGRATOR, *MIGRATION, MIGRATOR, timeout=ANSWER_SECONDS) or ""


LEDGER_EXISTS = "SELECT to_regclass('schema_migration') IS NOT NULL"

# A database of 0.2.0 or older does not say which version wrote it.
SELECT_APPLIED = """
    SELECT version, name, checksum,
        coalesce(to_jsonb(schema_migration) ->> 'hostsvc_version', '0.2.0 or older') AS hostsvc_version,
        coalesce(to_jsonb(schema_migration) ->> 'backup', '') AS backup
    FROM schema_migration
    ORDER BY version
"""


async def read_applied(connection: Connection) -> list[asyncpg.Record]:
    """Return the migrations that the database remembers, oldest first; none if it is empty."""
    if not await connection.fetchval(LEDGER_EXISTS, timeout=ANSWER_SECONDS):
        return []
    return await connection.fetch(SELECT_APPLIED, timeout=ANSWER_SECONDS)


async def _pending(connection: Connection, migrations: Sequence[Migration]) -> list[Migration]:
    shipped = {migration.version: migration for migration in migrations}
    applied = await read_applied(connection)
    for row in applied:
        migration = shipped.pop(row["version"], None)
        applied_by = f"hostsvc {row['hostsvc_version']} applied {row['name']} to the database"
        if migration is None:
            raise SchemaMismatch(
                f"{applied_by}, which hostsvc {VERSION} does not know: run that version or a newer one, or "
                f"restore {row['backup'] or 'a backup from before it'}"
            )
        if not migration.was_applied_as(row["checksum"]):
            raise SchemaMismatch(
                f"{applied_by}, but the {migration.name} of hostsvc {VERSION} runs other statements: "
                "run that version, or restore a backup from before it"
            )
    return list(shipped.values())


SELECT_SAFETY = """
    SELECT current_setting('server_version_num')::integer AS version_number,
           current_setting('server_version') AS version,
           current_setting('fsync') AS fsync,
           current_setting('synchronous_commit') AS synchronous_commit,
           current_setting('hostsvc.origin', true) AS origin
"""


async def refuse_unsafe(url: str) -> None:
    """Raise DatabaseRefused unless commits are durable and each connection keeps one server session."""
    async with connect(url) as connection, connect(url) as another:
        server = (await connection.fetch(SELECT_SAFETY, timeout=ANSWER_SECONDS))[0]
        if server["version_number"] < MIN_SERVER_VERSION:
            raise DatabaseRefused(f"PostgreSQL {server['version']} is too old: hostsvc needs 15 or newer")
        # These are the values for this role in this database, wherever they were set. full_page_writes is not
        # checked: on a file system that never tears a page, it may well be off.
        for setting in ("fsync", "synchronous_commit"):
            if server[setting] == "off":
                raise DatabaseRefused(
                    f"{setting} is off, so acknowledged writes might not survive a crash: turn it on"
                )
        if server["origin"] != SERVER_SETTINGS["hostsvc.origin"] or await _changes_session(
            connection, another
        ):
            raise DatabaseRefused(
                "a transaction-pooling proxy stands before the database, which breaks session locks: "
                "point database.url at PostgreSQL itself, or set the proxy to session pooling"
            )


SELECT_SERVER_PROCESS = "SELECT pg_backend_pid()"


async def _changes_session(connection: Connection, another: Connection) -> bool:
    """Return whether statements of one connection reach several server processes.

    A transaction on another connection keeps the proxy from assigning the same process again by chance.
    """
    processes = set()
    try:
        for _ in range(3):
            processes.add(await connection.fetchval(SELECT_SERVER_PROCESS))
            async with another.transaction():
                await another.fetchval(SELECT_SERVER_PROCESS)
                processes.add(await connection.fetchval(SELECT_SERVER_PROCESS))
    except (asyncpg.InvalidSQLStatementNameError, asyncpg.DuplicatePreparedStatementError):
        return True  # a statement was prepared on one process and used on another
    return len(processes) > 1
