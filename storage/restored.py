"""The queries of storage/checks on a restored database, each below the comment that says what it finds."""

import re
from collections.abc import Mapping, Sequence
from importlib.resources import files

from storage.postgres.connections import Connection

QUERY = re.compile(r"^-- (.+)\n(SELECT [^;]+);", re.MULTILINE)


def read_sql(name: str) -> str:
    """Return the text of a file of storage/checks."""
    return files("storage").joinpath("checks", f"{name}.sql").read_text(encoding="utf-8")


async def find(connection: Connection, name: str) -> Mapping[str, Sequence[str]]:
    """Return what each query of the file finds: names or ids."""
    queries = QUERY.findall(read_sql(name))
    return {title: [str(row[0]) for row in await connection.fetch(sql)] for title, sql in queries}
