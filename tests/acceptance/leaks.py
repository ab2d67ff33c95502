"""Where secrets must not be: in what a service logged, and in the rows of its database."""

import re
from typing import Any

import aiopg
from psycopg2 import sql

PASSWORD = "correct horse"
SECRET = re.compile(
    rf"hsk_[a-z0-9]{{8}}_[A-Za-z0-9_-]{{43}}|eyJ[A-Za-z0-9_-]+\.eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+|{PASSWORD}"
)

TABLES = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"


async def contents(database_url: str) -> str:
    """All rows of all tables, as text."""
    async with aiopg.connect(database_url) as connection, connection.cursor() as cursor:
        await cursor.execute(TABLES)
        lines = []
        for (table,) in await cursor.fetchall():
            await cursor.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(table)))
            lines += [f"{table}: {[_readable(value) for value in row]}" for row in await cursor.fetchall()]
    return "\n".join(lines)


def refuse_secrets(place: str, text: str) -> None:
    """Fail if there is a key, a user's token or the password of the tests in the text."""
    found = SECRET.search(text)
    assert found is None, f"{place} has a secret: …{text[max(0, found.start() - 200) : found.end()]}"


def _readable(value: Any) -> str:
    return bytes(value).decode(errors="replace") if isinstance(value, memoryview) else str(value)
