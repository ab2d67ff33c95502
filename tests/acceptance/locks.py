"""Row locks that block the service: they keep a run active, or a connection in use."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg2

LOCK_NOTIFICATION = "SELECT 1 FROM notification WHERE id = %s FOR UPDATE"
LOCK_AGENT = "SELECT 1 FROM agent WHERE id = %s FOR UPDATE"


@contextmanager
def locked_row(database_url: str, row_id: str, lock: str = LOCK_NOTIFICATION) -> Iterator[None]:
    """Lock a notification, or another row by `lock`: its writers wait until the block ends."""
    connection = psycopg2.connect(database_url)
    try:
        with connection.cursor() as cursor:
            cursor.execute(lock, (row_id,))
        yield
    finally:
        connection.close()
