"""Lock a row that the service wants to write, which keeps a run, or a connection, waiting."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg2

LOCK_NOTIFICATION = "SELECT 1 FROM notification WHERE id = %s FOR UPDATE"
LOCK_AGENT = "SELECT 1 FROM agent WHERE id = %s FOR UPDATE"


@contextmanager
def held_by_somebody_else(database_url: str, row_id: str, lock: str = LOCK_NOTIFICATION) -> Iterator[None]:
    """Hold a lock while the block lasts: who clears the notification, or changes the row, waits."""
    connection = psycopg2.connect(database_url)
    try:
        with connection.cursor() as cursor:
            cursor.execute(lock, (row_id,))
        yield
    finally:
        connection.close()
