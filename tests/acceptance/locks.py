"""A way to keep a run going: somebody else holds the row that it wants to write."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg2

LOCK = "SELECT 1 FROM notification WHERE id = %s FOR UPDATE"


@contextmanager
def held_by_somebody_else(database_url: str, notification_id: str) -> Iterator[None]:
    """Whoever clears this notification waits until the block is left."""
    connection = psycopg2.connect(database_url)
    try:
        with connection.cursor() as cursor:
            cursor.execute(LOCK, (notification_id,))
        yield
    finally:
        connection.close()
