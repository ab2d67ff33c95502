"""Backups: a snapshot of the database in one file, which is restored as a paused instance.

The file is plain SQL compressed by gzip, so any psql can restore it, too. Its first line says what it is:

    -- hostsvc {"version": "0.3.0", "migration": "0042_instance_pause.sql", "made_at": "2026-11-29 01:20 UTC"}
"""

import asyncio
import gzip
import os
import re
import shutil
import subprocess
import tempfile
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
import structlog
from psycopg2.extensions import make_dsn, parse_dsn

from hostsvc.config import DatabaseChoice
from hostsvc.embedded_postgres import MAJOR_VERSION, bundled_program
from storage.errors import DatabaseRefused, SchemaMismatch
from storage.events.audit_log import record_act
from storage.postgres.connections import connect
from storage.postgres.migrations import VERSION, migrate, read_applied, read_migrations
from storage.restored import read_sql
from supervisors.policy.explanations import when

HEADER = "-- hostsvc "
KEPT = 3  # automatic backups
CHUNK_BYTES = 1 << 20
PIPE_BYTES = 4096
REST_SECONDS = 0.0002  # after each so many bytes of pg_dump; without, requests wait twice as long
DAMAGED = (gzip.BadGzipFile, EOFError, zlib.error)
# Whoever restores it owns it. Stronger compression takes several times as long.
DUMP = ("--no-owner", "--no-privileges", "--compress=gzip:1")
LOAD = ("--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", f"--output={os.devnull}")
# What only some servers know: a default of 17 and newer, and what later minor releases keep with a column.
NOT_PORTABLE = re.compile(rb"^(SET transaction_timeout = 0|ALTER .* SET \(pg_attver=\d+\));\n", re.MULTILINE)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Header:
    """What a backup is: the version that wrote its schema, the last migration, and when it was made."""

    version: str
    migration: str
    made_at: str


async def back_up(url: str, file: Path, now: datetime) -> Header:
    """Write a snapshot of the database to a file that only its owner can read, replacing one that exists."""
    async with connect(url) as connection:
        applied, server = await read_applied(connection), connection.get_server_version().major
    if not applied:
        raise DatabaseRefused("the database is empty: there is nothing to back up")
    header = Header(applied[-1]["hostsvc_version"], applied[-1]["name"], when(now))
    await asyncio.to_thread(_dump, url, file, header, server)
    return header


def _dump(url: str, file: Path, header: Header, server: int) -> None:
    """Take the output of pg_dump in small pieces, with rests in which the server has time for requests."""
    descriptor, unfinished = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with open(descriptor, "wb") as output:
            output.write(gzip.compress(HEADER.encode() + orjson.dumps(asdict(header)) + b"\n"))
            pipe = {"stdout": subprocess.PIPE, "bufsize": 0, "pipesize": PIPE_BYTES}
            with _running("pg_dump", DUMP, url, server, **pipe) as program:
                while piece := program.stdout.read(PIPE_BYTES):
                    output.write(piece)
                    time.sleep(REST_SECONDS)
            output.flush()
            os.fsync(output.fileno())
        os.replace(unfinished, file)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(unfinished)


def read_header(file: Path) -> Header:
    """Return what the backup is. Raise DatabaseRefused if the file is none, or one of a later version."""
    try:
        with gzip.open(file) as lines:
            header = Header(**orjson.loads(lines.readline(1000).removeprefix(HEADER.encode())))
    except (*DAMAGED, ValueError, TypeError) as error:
        raise DatabaseRefused(f"{file} was not written by hostsvc backup") from error
    if header.migration > read_migrations()[-1].name:
        raise SchemaMismatch(
            f"{file} was written by hostsvc {header.version} with the migration {header.migration}, which "
            f"hostsvc {VERSION} does not know: restore it with that version or a newer one"
        )
    return header


async def restore(url: str, file: Path, now: datetime) -> Header:
    """Restore a backup into an empty database in one transaction, pause the instance, and migrate it."""
    header = read_header(file)
    async with connect(url) as connection:
        if await connection.fetchval("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"):
            raise DatabaseRefused("the database is not empty: give a new one, or a new database.data_dir")
        server = connection.get_server_version().major
    because = f"it was restored from a backup of {header.made_at}"
    ending = read_sql("set_paused").replace("/* now */", str(now)).replace("/* because */", because)
    try:
        await asyncio.to_thread(_load, url, file, ending.encode(), server)
    except DAMAGED as error:
        raise DatabaseRefused(f"{file} is damaged: {error}; nothing was restored") from error
    await migrate(url)
    async with connect(url) as connection, connection.transaction():
        await record_act(connection, "restored", now, version=header.version, made_at=header.made_at)
        await record_act(connection, "paused", now, because=because)
    return header


def _load(url: str, file: Path, ending: bytes, server: int) -> None:
    """Give psql the backup, and then the ending, which commits: without it nothing was restored."""
    psql = _running("psql", LOAD, url, server, stdin=subprocess.PIPE)
    # If psql has failed, it says why.
    with gzip.open(file) as dump, psql as program, suppress(BrokenPipeError), program.stdin as stdin:
        stdin.write(b"BEGIN;\n" + NOT_PORTABLE.sub(b"", dump.read(CHUNK_BYTES)))  # with the whole schema
        shutil.copyfileobj(dump, stdin, CHUNK_BYTES)
        stdin.write(ending)


@contextmanager
def _running(name: str, options: Sequence[str], url: str, server: int, **pipes: Any) -> Iterator[Any]:
    """Run a program of PostgreSQL, after the service. Raise DatabaseRefused in its words if it fails."""
    program, environment = _program(name, url, server)
    command = ["nice", "-n", "19", *program, *options]
    with (
        tempfile.TemporaryFile() as problem,
        subprocess.Popen(command, stderr=problem, env=environment, **pipes) as process,  # noqa: S603
    ):
        yield process
        if code := process.wait():
            problem.seek(0)
            raise DatabaseRefused(problem.read().decode(errors="replace") or f"exit code {code}")


def _program(name: str, url: str, server: int) -> tuple[list[str], Mapping[str, str]]:
    """Return the command of a program of PostgreSQL no older than the server, and its environment.

    The password is not in the command, which other users can read.
    """
    path = (bundled_program(name) if server <= MAJOR_VERSION else None) or shutil.which(name)
    if path is None:
        raise DatabaseRefused(f"there is no {name} for PostgreSQL {server}: install its client programs")
    parts = parse_dsn(url)
    password = {"PGPASSWORD": parts.pop("password")} if "password" in parts else {}
    return [str(path), f"--dbname={make_dsn(**parts)}"], os.environ | password


async def migrate_safely(database: DatabaseChoice, url: str, now: datetime) -> list[str]:
    """Apply the missing migrations, and return their names. Before that, back up an embedded database."""
    folder = database.data_dir.expanduser().absolute() / "backups"

    async def back_up_before(migration: str) -> Path:
        folder.mkdir(mode=0o700, exist_ok=True)
        file = folder / f"{now:%Y-%m-%dT%H-%M-%SZ}-before-{migration.partition('_')[0]}.sql.gz"
        await back_up(url, file, now)
        log.info("database backed up before it is migrated", file=str(file))
        for old in sorted(folder.glob("*-before-*.sql.gz"))[:-KEPT]:
            old.unlink()
        return file

    return await migrate(url, None if database.url else back_up_before)
