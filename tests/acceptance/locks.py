"""Somebody else holds the row that the service wants to write: a way to keep a run going, or a connection."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg2

LOCK_NOTIFICATION = "SELECT 1 FROM notification WHERE id = %s FOR UPDATE"
LOCK_AGENT = "SELECT 1 FROM agent WHERE id = %s FOR UPDATE"


@contextmanager
def held_by_somebody_else(database_url: str, row_id: str, lock: str = LOCK_NOTIFICATION) -> Iterator[None]:
    """Whoever clears this notification, or changes what else is locked, waits until the block is left."""
    connection = psycopg2.connect(database_url)
    try:
        with connection.cursor() as cursor:
            cursor.execute(lock, (row_id,))
        yield
    finally:
        connection.close()
