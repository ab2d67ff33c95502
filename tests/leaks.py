"""The search for leaked secrets in the log lines of a service and in the rows of its database."""

import json
import re
import traceback
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from typing import Any, Protocol

import psycopg2
import structlog
from aiohttp import web
from psycopg2 import sql
from structlog.typing import EventDict, WrappedLogger

PASSWORD = "correct horse"
SECRET = re.compile(
    rf"hsk_[a-z0-9]{{8}}_[A-Za-z0-9_-]{{43}}|eyJ[A-Za-z0-9_-]+\.eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+|{PASSWORD}"
)
SECRET_FIELDS = ("key", "code", "token", "ticket", "secret", "tool_call_secret")
MIN_LENGTH = 20  # of a secret; other values of such fields are shorter, or no text

TABLES = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"


class Fetching(Protocol):
    """A pool or connection of asyncpg."""

    async def fetch(self, sql: str) -> Any: ...


class Overheard:
    """Records the secrets that a service returned, and the lines that it logged."""

    def __init__(self) -> None:
        self.secrets: set[str] = set()
        self.lines: list[str] = []

    async def note_answer(self, _: web.Request, response: web.StreamResponse) -> None:
        """Record the secrets in a response; a handler for aiohttp's `on_response_prepare` signal."""
        body = response.body if isinstance(response, web.Response) else None
        if not isinstance(body, bytes) or response.status >= 300:
            return
        has_secret = any(f'"{name}":'.encode() in body for name in SECRET_FIELDS)
        if has_secret and response.content_type == "application/json":
            answer = json.loads(body)
            values = [answer.get(name) for name in SECRET_FIELDS] if isinstance(answer, dict) else []
            self.secrets |= {value for value in values if isinstance(value, str) and len(value) >= MIN_LENGTH}

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Record every log line inside the block, and pass it on."""
        processors = structlog.get_config()["processors"]
        processors.insert(0, self._note_line)
        try:
            yield
        finally:
            processors.remove(self._note_line)

    def refuse_secrets(self, place: str, text: str) -> None:
        refuse_secrets(place, text)
        for secret in self.secrets:
            assert secret not in text, f"{place} contains a secret that an answer returned: {secret}"

    def _note_line(self, _logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        self.lines.append(f"{event} {traceback.format_exc() if event.get('exc_info') else ''}")
        return event


def contents(database_url: str) -> str:
    """Return all rows of all tables as text."""
    with closing(psycopg2.connect(database_url)) as connection:
        return contents_over(connection)


def contents_over(connection: "psycopg2.extensions.connection") -> str:
    """Return all rows of all tables as text, read over an existing connection."""
    with connection.cursor() as cursor:
        cursor.execute(TABLES)
        cursor.execute(filled_among([table for (table,) in cursor.fetchall()]))
        lines = []
        for (table,) in cursor.fetchall():
            cursor.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(table)))
            lines += _lines(table, cursor.fetchall())
    return "\n".join(lines)


async def contents_by(database: Fetching) -> str:
    """Return all rows of all tables as text, read over an existing pool or connection of asyncpg."""
    filled = filled_among([table for (table,) in await database.fetch(TABLES)])
    lines = []
    for (table,) in await database.fetch(filled):
        lines += _lines(table, await database.fetch(f'SELECT * FROM "{table}"'))  # noqa: S608
    return "\n".join(lines)


def filled_among(tables: Collection[str]) -> str:
    """Return the statement that names those of these tables that have rows."""
    return " UNION ALL ".join(f"SELECT '{name}' WHERE EXISTS (SELECT FROM {name})" for name in tables)  # noqa: S608


def refuse_secrets(place: str, text: str) -> None:
    """Fail if the text contains an API key, a user's token or the password of the tests."""
    match = SECRET.search(text)
    assert match is None, f"{place} contains a secret: …{text[max(0, match.start() - 200) : match.end()]}"


def _lines(table: str, rows: Collection[Any]) -> list[str]:
    return [f"{table}: {[_readable(value) for value in row]}" for row in rows]


def _readable(value: Any) -> str:
    return bytes(value).decode(errors="replace") if isinstance(value, memoryview | bytes) else str(value)
