"""Faults that tests inject into the service and its database while clients write."""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import aiopg

from hostsvc.embedded_postgres import EmbeddedPostgres
from storage.postgres.connections import MEMBER
from tests.processes import children

END_SERVICE_CONNECTIONS = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE application_name = 'hostsvc' AND datname = current_database()
"""

# Only the connections on which nodes beat hold an advisory lock exclusively.
END_BEAT_CONNECTIONS = """
SELECT count(pg_terminate_backend(pid)) FROM pg_locks
WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND granted AND objsubid = 2
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""

# The connections of the pools of all nodes; those of their beats are not ended.
END_POOL_CONNECTIONS = f"""
SELECT count(pg_terminate_backend(pid)) FROM pg_locks
WHERE locktype = 'advisory' AND classid = {MEMBER} AND granted AND objsubid = 2
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""  # noqa: S608


async def end_connections(database_url: str, which: str) -> int:
    """Have PostgreSQL end some connections of the service; return their number."""
    async with aiopg.connect(database_url) as connection, connection.cursor() as cursor:
        await cursor.execute(which)
        (count,) = await cursor.fetchone()
        return int(count)


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Stop a process while the block lasts, as a debugger or a suspended machine does."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def stopped_with_children(parent: int) -> Iterator[None]:
    """Stop a process and those that it has started while the block lasts."""
    with ExitStack() as resumed:
        resumed.enter_context(stopped(parent))  # first, so that it starts no process that is missed
        for pid in children(parent):
            resumed.enter_context(stopped(pid))
        yield


class OwnPostgres:
    """A PostgreSQL of one test, which may be killed. All methods block."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self._server = EmbeddedPostgres(data_dir)
        self.url = self._server.start()

    def stop(self) -> None:
        self._server.stop()

    def restart(self) -> None:
        """Stop and start the server in order."""
        self._server.stop()
        self._server.start()

    def kill(self) -> None:
        """Kill the postmaster only; the processes that it has started notice by themselves."""
        os.kill(self._pid(), signal.SIGKILL)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop all processes of the server while the block lasts: its connections stay and say nothing."""
        with stopped_with_children(self._pid()):
            yield

    def kill_and_restart(self) -> None:
        self.kill()
        self.restart()

    def _pid(self) -> int:
        pid_file = self.data_dir / "postgres" / "postmaster.pid"
        return int(pid_file.read_text().splitlines()[0])


@contextmanager
def killable_postgres() -> Iterator[OwnPostgres]:
    """Yield a server with a data directory of its own, which is removed afterwards."""
    data_dir = Path(tempfile.mkdtemp(prefix="hostsvc-tests-"))
    postgres = OwnPostgres(data_dir)
    try:
        yield postgres
    finally:
        postgres.stop()
        shutil.rmtree(data_dir)
