"""Databases and roles for tests, on a PostgreSQL server that all of them share."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit, urlunsplit

import psycopg2
from psycopg2.extensions import ISOLATION_LEVEL_AUTOCOMMIT, quote_ident


def url_of(server_url: str, database: str) -> str:
    """Return the URL of another database on the same server."""
    return urlunsplit(urlsplit(server_url)._replace(path=f"/{database}"))


def url_as(url: str, role: str) -> str:
    """Return the URL with which a role made by `TestServer.role` connects to the same database."""
    parts = urlsplit(url)
    address = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{role}:{_PASSWORD}@{address}"))


_PASSWORD = "only-for-tests"


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

    def close(self) -> None:
        self._drop_unused()
        self._connection.close()

    @contextmanager
    def database(self, template: str = "template0") -> Iterator[str]:
        """Yield the URL of a copy of `template`. It is dropped when the next one is created, with FORCE.

        Dropping it at once would take 100 ms: PostgreSQL sleeps that long while a connection is closing.
        """
        self._drop_unused()
        name = f"test_{uuid.uuid4().hex}"
        copied = f"TEMPLATE {self._quoted(template)} STRATEGY {self._strategy}"
        self._execute(f"CREATE DATABASE {self._quoted(name)} {copied}")
        try:
            yield url_of(self.url, name)
        finally:
            self._unused.append(name)

    @contextmanager
    def role(self) -> Iterator[str]:
        """Yield a role that may log in and has no other privileges."""
        name = f"test_{uuid.uuid4().hex}"
        self._execute(f"CREATE ROLE {self._quoted(name)} LOGIN PASSWORD '{_PASSWORD}'")
        try:
            yield name
        finally:
            self._drop_unused()
            self._execute(f"DROP ROLE {self._quoted(name)}")

    def _drop_unused(self) -> None:
        while self._unused:
            self._execute(f"DROP DATABASE {self._quoted(self._unused.pop())} WITH (FORCE)")

    def _quoted(self, name: str) -> str:
        return str(quote_ident(name, self._connection))

    def _execute(self, sql: str) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
