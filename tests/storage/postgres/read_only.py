"""A database that takes no writes for a while, as after a failover or by its administrator."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from urllib.parse import urlsplit

import psycopg2


@contextmanager
def read_only_database(database_url: str) -> Iterator[None]:
    """Open all new sessions of the database read-only while the block lasts."""
    name = urlsplit(database_url).path.removeprefix("/")
    _execute(database_url, f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    try:
        yield
    finally:
        _execute(database_url, f'ALTER DATABASE "{name}" RESET default_transaction_read_only')


def _execute(database_url: str, sql: str) -> None:
    with closing(
        psycopg2.connect(database_url, options="-c default_transaction_read_only=off")
    ) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(sql)
