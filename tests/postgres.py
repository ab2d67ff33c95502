"""Databases and roles for tests, on a PostgreSQL server that all of them share."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg2
from psycopg2.extensions import ISOLATION_LEVEL_AUTOCOMMIT, quote_ident

from tests.leaks import contents, contents_over


def url_of(server_url: str, database: str) -> str:
    """Return the URL of another database on the same server."""
    return urlunsplit(urlsplit(server_url)._replace(path=f"/{database}"))


def url_as(url: str, role: str) -> str:
    """Return the URL with which a role made by `TestServer.role` connects to the same database."""
    parts = urlsplit(url)
    address = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{role}:{_PASSWORD}@{address}"))


_PASSWORD = "only-for-tests"

# Deleted rows leave their space behind, and plans follow the size: beyond this a new copy is quicker.
MAX_BYTES = 1 << 20

END_OTHER_SESSIONS = """
SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""
TABLES = """
SELECT quote_ident(relname) FROM pg_class
WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace ORDER BY relname
"""
# Changes whenever a test changes the schema: `xmin` is the transaction that wrote a row of a catalog.
SCHEMA = """
SELECT (SELECT (count(*), sum(xmin::text::bigint))::text FROM pg_class WHERE oid >= 16384),
    (SELECT (count(*), sum(xmin::text::bigint))::text FROM pg_proc WHERE oid >= 16384),
    (SELECT (count(*), sum(xmin::text::bigint))::text FROM pg_attribute WHERE attrelid >= 16384),
    (SELECT (count(*), sum(xmin::text::bigint))::text FROM pg_trigger),
    (SELECT (count(*), sum(xmin::text::bigint))::text FROM pg_constraint),
    (SELECT count(*) FROM pg_statistic WHERE starelid >= 16384)
"""
SIZE = """
SELECT sum(pg_relation_size(oid))::bigint FROM pg_class
WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
"""
RESTART_SEQUENCES = """
SELECT setval(seqrelid, seqstart, false) FROM pg_sequence JOIN pg_class c ON c.oid = seqrelid
WHERE c.relnamespace = 'public'::regnamespace
"""


class ReusedDatabase:
    """A copy of the template, for one test after another."""

    def __init__(self, url: str) -> None:
        self.url = url
        options = "-c session_replication_role=replica"  # no triggers, which record deletions or refuse them
        self._connection = psycopg2.connect(url, options=options)
        self._connection.set_isolation_level(ISOLATION_LEVEL_AUTOCOMMIT)
        self._empty = self._statements()
        self._schema = self._fetch(SCHEMA)

    def empty(self) -> bool:
        """Bring back the contents of the template in a few milliseconds; return whether that was possible."""
        try:
            self._fetch(END_OTHER_SESSIONS)
            if self._fetch(SCHEMA) != self._schema or self._fetch(SIZE)[0][0] > MAX_BYTES:
                return False
            self._fetch(self._empty)
        except psycopg2.OperationalError:  # the test ended all sessions, this one too
            return False
        return True

    def contents(self) -> str:
        """Return all rows as text. A new connection would read the catalogs of all tables first."""
        return contents_over(self._connection)

    def close(self) -> None:
        self._connection.close()

    def _statements(self) -> str:
        """Return the statements that empty all tables, and restore kept rows."""
        tables = [name for (name,) in self._fetch(TABLES)]
        kept = [name for name in tables if self._fetch(f"SELECT EXISTS (SELECT FROM {name})")[0][0]]  # noqa: S608 -- from the catalog
        for name in kept:
            self._fetch(f"CREATE TEMP TABLE {name} AS TABLE public.{name}; SELECT")
        deletions = [f"DELETE FROM public.{name}" for name in tables]  # noqa: S608 -- from the catalog
        returns = [f"INSERT INTO public.{name} TABLE pg_temp.{name}" for name in kept]
        return ";".join([*deletions, *returns, RESTART_SEQUENCES])

    def _fetch(self, sql: str) -> list[Any]:
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())


class TestServer:
    """Creates and drops databases over a connection of its own."""

    __test__ = False

    def __init__(self, url: str, strategy: str = "WAL_LOG") -> None:
        """Connect. `strategy` is that of CREATE DATABASE: FILE_COPY is quicker on a file system in memory."""
        self.url = url
        self._strategy = strategy
        self._connection = psycopg2.connect(url)
        self._connection.set_isolation_level(ISOLATION_LEVEL_AUTOCOMMIT)
        self._unused: list[str] = []
        self._reused: ReusedDatabase | None = None

    def close(self) -> None:
        self._discard_reused()
        self._drop_unused()
        self._connection.close()

    @contextmanager
    def database(self, template: str = "template0") -> Iterator[str]:
        """Yield the URL of a copy of `template`. It is dropped when the next one is created, with FORCE.

        Dropping it at once would take 100 ms: PostgreSQL sleeps that long while a connection is closing.
        """
        name = self._create(template)
        try:
            yield url_of(self.url, name)
        finally:
            self._unused.append(name)

    def emptied_database(self, template: str) -> str:
        """Return the URL of a copy of `template`, which each later caller gets emptied."""
        if self._reused is not None and not self._reused.empty():
            self._discard_reused()
        if self._reused is None:
            self._reused = ReusedDatabase(url_of(self.url, self._create(template)))
        return self._reused.url

    def contents(self, url: str) -> str:
        """Return all rows of a database as text."""
        if self._reused is not None and self._reused.url == url:
            with suppress(psycopg2.OperationalError):  # the test ended all sessions, this one too
                return self._reused.contents()
        return contents(url)

    @contextmanager
    def role(self) -> Iterator[str]:
        """Yield a role that may log in and has no other privileges."""
        name = f"test_{uuid.uuid4().hex}"
        self._execute(f"CREATE ROLE {self._quoted(name)} LOGIN PASSWORD '{_PASSWORD}'")
        try:
            yield name
        finally:
            self._discard_reused()  # it may have granted something to the role
            self._drop_unused()
            self._execute(f"DROP ROLE {self._quoted(name)}")

    def _create(self, template: str) -> str:
        self._drop_unused()
        name = f"test_{uuid.uuid4().hex}"
        copied = f"TEMPLATE {self._quoted(template)} STRATEGY {self._strategy}"
        self._execute(f"CREATE DATABASE {self._quoted(name)} {copied}")
        return name

    def _discard_reused(self) -> None:
        if self._reused is not None:
            self._reused.close()
            self._unused.append(urlsplit(self._reused.url).path.removeprefix("/"))
            self._reused = None

    def _drop_unused(self) -> None:
        while self._unused:
            self._execute(f"DROP DATABASE {self._quoted(self._unused.pop())} WITH (FORCE)")

    def _quoted(self, name: str) -> str:
        return str(quote_ident(name, self._connection))

    def _execute(self, sql: str) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
