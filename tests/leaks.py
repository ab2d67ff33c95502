"""Where secrets must not be: in what a service logged, and in the rows of its database."""

import json
import re
import traceback
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import aiopg
import structlog
from aiohttp import web
from psycopg2 import sql
from structlog.typing import EventDict, WrappedLogger

PASSWORD = "correct horse"
SECRET = re.compile(
    rf"hsk_[a-z0-9]{{8}}_[A-Za-z0-9_-]{{43}}|eyJ[A-Za-z0-9_-]+\.eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+|{PASSWORD}"
)
TOLD_ONCE = ("key", "code", "token")
LEAST_LENGTH = 20  # of a secret that was told; what else has such a name is shorter, or no text

TABLES = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"


class Fetching(Protocol):
    """A pool or connection of asyncpg."""

    async def fetch(self, sql: str) -> Any: ...


class Overheard:
    """What a service told that only one may know, and what it logged."""

    def __init__(self) -> None:
        self.secrets: set[str] = set()
        self.lines: list[str] = []

    async def note_answer(self, _: web.Request, response: web.StreamResponse) -> None:
        """Signal on each response."""
        body = response.body if isinstance(response, web.Response) else None
        if isinstance(body, bytes) and response.status < 300 and response.content_type == "application/json":
            shown = json.loads(body)
            told = [shown.get(name) for name in TOLD_ONCE] if isinstance(shown, dict) else []
            self.secrets |= {each for each in told if isinstance(each, str) and len(each) >= LEAST_LENGTH}

    @contextmanager
    def listening(self) -> Iterator[None]:
        """To every log line, as long as the block lasts; it goes on as it would have."""
        processors = structlog.get_config()["processors"]
        processors.insert(0, self._note_line)
        try:
            yield
        finally:
            processors.remove(self._note_line)

    def refuse_secrets(self, place: str, text: str) -> None:
        refuse_secrets(place, text)
        for secret in self.secrets:
            assert secret not in text, f"{place} has a secret that was told in an answer: {secret}"

    def _note_line(self, _logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        self.lines.append(f"{event} {traceback.format_exc() if event.get('exc_info') else ''}")
        return event


async def contents(database_url: str) -> str:
    """All rows of all tables, as text."""
    async with aiopg.connect(database_url) as connection, connection.cursor() as cursor:
        await cursor.execute(TABLES)
        lines = []
        for (table,) in await cursor.fetchall():
            await cursor.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(table)))
            lines += _lines(table, await cursor.fetchall())
    return "\n".join(lines)


async def contents_by(database: Fetching) -> str:
    """The same, over a connection that there is."""
    lines = []
    for (table,) in await database.fetch(TABLES):
        lines += _lines(table, await database.fetch(f'SELECT * FROM "{table}"'))  # noqa: S608
    return "\n".join(lines)


def refuse_secrets(place: str, text: str) -> None:
    """Fail if there is a key, a user's token or the password of the tests in the text."""
    found = SECRET.search(text)
    assert found is None, f"{place} has a secret: …{text[max(0, found.start() - 200) : found.end()]}"


def _lines(table: str, rows: Collection[Any]) -> list[str]:
    return [f"{table}: {[_readable(value) for value in row]}" for row in rows]


def _readable(value: Any) -> str:
    return bytes(value).decode(errors="replace") if isinstance(value, memoryview | bytes) else str(value)
