"""What is done to the service and its database while clients write."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiopg

from hostsvc.embedded_postgres import EmbeddedPostgres

END_SERVICE_CONNECTIONS = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE application_name = 'hostsvc' AND datname = current_database()
"""

# The leader alone holds an advisory lock exclusively.
END_LEADER_CONNECTION = """
SELECT count(pg_terminate_backend(pid)) FROM pg_locks
WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND granted AND objsubid = 2
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""

# Those of the pool share a lock; the leader's connection is left alone.
END_POOL_CONNECTIONS = """
SELECT count(pg_terminate_backend(pid)) FROM pg_locks
WHERE locktype = 'advisory' AND mode = 'ShareLock' AND granted AND objsubid = 2
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


async def end_connections(database_url: str, which: str) -> int:
    """How many of the service's connections PostgreSQL was told to end."""
    async with aiopg.connect(database_url) as connection, connection.cursor() as cursor:
        await cursor.execute(which)
        (count,) = await cursor.fetchone()
        return int(count)


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """A process that stands still, as under a debugger or on a suspended machine."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


class OwnPostgres:
    """A PostgreSQL that nobody but this test uses, so that it may be killed. All of it blocks."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._server = EmbeddedPostgres(data_dir)
        self.url = self._server.start()

    def stop(self) -> None:
        self._server.stop()

    def restart(self) -> None:
        """As an administrator would."""
        self._server.stop()
        self._server.start()

    def kill(self) -> None:
        """The postmaster alone: the processes that it has started find out by themselves."""
        pid_file = self._data_dir / "postgres" / "postmaster.pid"
        os.kill(int(pid_file.read_text().splitlines()[0]), signal.SIGKILL)

    def kill_and_restart(self) -> None:
        self.kill()
        self.restart()
