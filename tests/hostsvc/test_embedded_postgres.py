"""The embedded PostgreSQL: it starts after any kind of crash, and stops with its last user."""

import os
import pwd
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from subprocess import PIPE

import psycopg2
import pytest
from psycopg2.extras import wait_select
from structlog.testing import capture_logs

from hostsvc.embedded_postgres import (
    EmbeddedPostgres,
    EmbeddedPostgresError,
    _allow_traversal,
    _cause,
    _system_account,
    embedded_postgres,
)
from storage.postgres.connections import connect
from supervisors.clock import SystemClock
from tests.patience import PATIENCE_SECONDS

USE_UNTIL_KILLED = """
import sys, pathlib
from hostsvc import embedded_postgres
embedded_postgres._GRACE_SECONDS = float(sys.argv[2])
embedded_postgres.EmbeddedPostgres(pathlib.Path(sys.argv[1])).start()
print("started", flush=True)
sys.stdin.read()
"""
LONG_SECONDS = 600.0  # longer than a test
GRACE_SECONDS = 5.0  # longer than a start
MAX_GUARDIAN_BYTES = 6 << 20


@pytest.fixture(scope="module")
def shared_data_dir() -> Iterator[Path]:
    """A data directory with a cluster; each test leaves its server stopped."""
    directory = Path(tempfile.mkdtemp(prefix="hostsvc-tests-"))
    server = EmbeddedPostgres(directory)
    server.start()
    server.stop()
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def data_dir(shared_data_dir: Path) -> Iterator[Path]:
    yield shared_data_dir
    server = EmbeddedPostgres(shared_data_dir)  # a failed test may have left it running
    server.start()
    server.stop()


def query(url: str, sql: str) -> object:
    with closing(psycopg2.connect(url)) as connection, connection, connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchone()[0] if cursor.description else None


def postmaster(data_dir: Path) -> int | None:
    file = data_dir / "postgres" / "postmaster.pid"
    return int(file.read_text().splitlines()[0]) if file.exists() else None


def kill(pid: int) -> None:
    """Kill a process and wait until it is dead, which may leave a zombie."""
    handle = os.pidfd_open(pid)
    signal.pidfd_send_signal(handle, signal.SIGKILL)
    select.select([handle], [], [], PATIENCE_SECONDS)
    os.close(handle)


@contextmanager
def using(data_dir: Path, grace_seconds: float) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process that uses the server, and kill it with its process group at the end of the block."""
    command = [sys.executable, "-c", USE_UNTIL_KILLED, str(data_dir), str(grace_seconds)]
    with subprocess.Popen(
        command, stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True, text=False
    ) as user:
        assert user.stdout is not None
        try:
            assert user.stdout.readline() == b"started\n", user.communicate()
            yield user
        finally:
            os.killpg(user.pid, signal.SIGKILL)
            out, err = user.communicate(timeout=PATIENCE_SECONDS)  # nothing else may keep the pipes open
            assert (out, err) == (b"", b"")


def guardian(data_dir: Path) -> int | None:
    """Return the id of the process that guards the server in this directory."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            command = (process / "cmdline").read_bytes()
            files = {os.readlink(file) for file in (process / "fd").iterdir()}
            if b"postgres_guardian.py" in command and str(data_dir / "alive.lock") in files:
                return int(process.name)
    return None


def own_bytes(pid: int) -> int:
    """Return the memory that the process shares with no other."""
    kilobytes = Path(f"/proc/{pid}/status").read_text().partition("RssAnon:")[2].split()[0]
    return int(kilobytes) << 10


def has_ended(pid: int, within: float = PATIENCE_SECONDS) -> bool:
    """Wait for the end of a process that is not a child."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    ended, _, _ = select.select([handle], [], [], within)
    os.close(handle)
    return bool(ended)


async def test_url_works_with_asyncpg(data_dir: Path) -> None:
    async with embedded_postgres(data_dir, SystemClock()) as url, connect(url) as connection:
        assert await connection.fetchval("SELECT current_setting('fsync')") == "on"
    assert postmaster(data_dir) is None


def test_last_user_stops_the_server(data_dir: Path) -> None:
    first, second = EmbeddedPostgres(data_dir), EmbeddedPostgres(data_dir)
    url = first.start()
    assert second.start() == url
    first.stop()
    assert query(url, "SELECT 1") == 1
    second.stop()
    assert postmaster(data_dir) is None


def test_stop_is_harmless_twice_or_without_start(data_dir: Path) -> None:
    server = EmbeddedPostgres(data_dir)
    server.stop()
    server.start()
    server.stop()
    server.stop()
    assert postmaster(data_dir) is None


def test_concurrent_users_share_one_server(data_dir: Path) -> None:
    answers: list[object] = []

    def use() -> None:
        server = EmbeddedPostgres(data_dir)
        answers.append(query(server.start(), "SELECT 1"))
        server.stop()

    users = [threading.Thread(target=use) for _ in range(4)]
    for user in users:
        user.start()
    for user in users:
        user.join()
    assert answers == [1, 1, 1, 1]
    assert postmaster(data_dir) is None


def test_server_of_a_killed_service_is_reused_and_stopped(data_dir: Path) -> None:
    with using(data_dir, LONG_SECONDS):
        pass
    running = postmaster(data_dir)
    server = EmbeddedPostgres(data_dir)
    assert query(server.start(), "SELECT 1") == 1
    assert postmaster(data_dir) == running
    server.stop()
    assert postmaster(data_dir) is None, "a dead user keeps the server alive"


def test_server_ends_soon_after_its_last_user_is_killed(data_dir: Path) -> None:
    with using(data_dir, 0.1) as user, using(data_dir, LONG_SECONDS):
        running, guarding = postmaster(data_dir), guardian(data_dir)
        assert running is not None
        assert guarding is not None
        kill(user.pid)
        assert not has_ended(running, 0.5), "the other user still needs it"
    assert has_ended(running)
    assert has_ended(guarding)
    assert postmaster(data_dir) is None, "it did not end in order"


def test_server_stays_for_a_service_restarted_at_once(data_dir: Path) -> None:
    with using(data_dir, GRACE_SECONDS):
        running = postmaster(data_dir)
        assert running is not None
    server = EmbeddedPostgres(data_dir)
    url = server.start()
    assert not has_ended(running, GRACE_SECONDS + 0.5)
    with using(data_dir, LONG_SECONDS):
        assert query(url, "SELECT 1") == 1
        assert postmaster(data_dir) == running
        server.stop()
    assert has_ended(running), "the guardian does not wait for the new user"


def test_users_that_come_while_the_server_ends_find_one(data_dir: Path) -> None:
    for _ in range(8):
        with using(data_dir, 0.0):
            pass
        server = EmbeddedPostgres(data_dir)  # at the moment at which the guardian stops the server
        assert query(server.start(), "SELECT 1") == 1
        server.stop()
        assert postmaster(data_dir) is None


async def test_guardian_ends_with_its_server_and_is_small(data_dir: Path) -> None:
    server = EmbeddedPostgres(data_dir)
    server.start()
    first, guarding = postmaster(data_dir), guardian(data_dir)
    assert first is not None
    assert guarding is not None
    assert own_bytes(guarding) < MAX_GUARDIAN_BYTES
    assert os.readlink(f"/proc/{guarding}/fd/2") == os.devnull
    kill(first)
    assert has_ended(guarding)
    await server.keep_alive()
    second = guardian(data_dir)
    assert second is not None
    server.stop()
    assert has_ended(second)


def test_server_without_a_guardian_works_and_is_logged(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hostsvc.embedded_postgres._GUARDIAN", data_dir / "missing.py")
    server = EmbeddedPostgres(data_dir)
    with capture_logs() as lines:
        assert query(server.start(), "SELECT 1") == 1
    [line] = [line for line in lines if "if this service is killed" in line["event"]]
    assert line["log_level"] == "warning"
    assert "missing.py" in line["reason"]
    server.stop()


def test_killed_server_is_restarted(data_dir: Path) -> None:
    killed_user = EmbeddedPostgres(data_dir)
    query(killed_user.start(), "CREATE TABLE kept AS SELECT 7 AS number")
    killed = postmaster(data_dir)
    assert killed is not None
    kill(killed)
    server = EmbeddedPostgres(data_dir)
    url = server.start()
    assert query(url, "SELECT number FROM kept") == 7
    assert postmaster(data_dir) != killed
    query(url, "DROP TABLE kept")
    killed_user.stop()
    server.stop()


def test_killed_server_restarts_after_its_last_statement_ends(data_dir: Path) -> None:
    killed_user = EmbeddedPostgres(data_dir)
    with closing(psycopg2.connect(killed_user.start(), async_=True)) as connection:
        wait_select(connection)
        connection.cursor().execute("SELECT sum(number) FROM generate_series(1, 3000000) AS number")
        killed = postmaster(data_dir)
        assert killed is not None
        kill(killed)
        server = EmbeddedPostgres(data_dir)
        assert query(server.start(), "SELECT 1") == 1
    killed_user.stop()
    server.stop()


def test_stale_process_id_of_another_process_is_ignored(data_dir: Path) -> None:
    cluster = data_dir / "postgres"
    stale = f"{os.getpid()}\n{cluster}\n1\n5432\n{cluster}\n\n0 0\nready\n"
    (cluster / "postmaster.pid").write_text(stale)
    (cluster / ".s.PGSQL.5432.lock").write_text(stale)
    server = EmbeddedPostgres(data_dir)
    assert query(server.start(), "SELECT 1") == 1
    server.stop()


def test_incomplete_first_start_is_repeated() -> None:
    with tempfile.TemporaryDirectory(prefix="hostsvc-tests-") as directory:
        unfinished = Path(directory) / "postgres.new"
        unfinished.mkdir()
        (unfinished / "PG_VERSION").write_text("18\n")
        server = EmbeddedPostgres(Path(directory))
        assert query(server.start(), "SELECT 1") == 1
        server.stop()


def test_start_waits_for_initdb_of_a_killed_start() -> None:
    with tempfile.TemporaryDirectory(prefix="hostsvc-tests-") as directory:
        command = [sys.executable, "-c", USE_UNTIL_KILLED, directory, str(LONG_SECONDS)]
        with subprocess.Popen(command, stdin=PIPE, stdout=PIPE) as killed:
            while not (Path(directory) / "postgres.new" / "base").exists():
                time.sleep(0.005)
            killed.kill()
        server = EmbeddedPostgres(Path(directory))
        assert query(server.start(), "SELECT 1") == 1
        server.stop()
        assert not (Path(directory) / "postgres.new").exists()


def test_long_path_with_spaces_is_accepted() -> None:
    with tempfile.TemporaryDirectory(prefix="hostsvc-tests-") as directory:
        server = EmbeddedPostgres(Path(directory) / "a b" / ("long" * 30))
        url = server.start()
        assert query(url, "SELECT lower('ÄÖ')") == "äö"
        sockets = Path(url.partition("host=")[2])
        server.stop()
        assert not sockets.exists(), "the directory of the socket is left behind"


@pytest.mark.parametrize("place", ["/proc/hostsvc", "/dev/null/hostsvc"])
def test_unwritable_directory_is_refused_by_name(place: str) -> None:
    expected = rf"cannot use {place}: \w[\w ]+; run this as the user of the service, or set"
    with pytest.raises(EmbeddedPostgresError, match=expected):
        EmbeddedPostgres(Path(place)).start()


def test_data_of_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "postgres").mkdir()
    (tmp_path / "postgres" / "PG_VERSION").write_text("16\n")
    with pytest.raises(EmbeddedPostgresError, match=f"{tmp_path} was created by PostgreSQL 16"):
        EmbeddedPostgres(tmp_path).start()


def test_failed_start_reports_the_reason(data_dir: Path) -> None:
    settings = data_dir / "postgres" / "postgresql.auto.conf"
    original = settings.read_text()
    settings.write_text("max_connections = none\n")
    try:
        with pytest.raises(EmbeddedPostgresError, match=r"did not start.*max_connections"):
            EmbeddedPostgres(data_dir).start()
    finally:
        settings.write_text(original)


async def test_server_that_cannot_restart_is_logged_once(data_dir: Path) -> None:
    server = EmbeddedPostgres(data_dir)
    url = server.start()
    settings = data_dir / "postgres" / "postgresql.auto.conf"
    original = settings.read_text()
    settings.write_text("max_connections = none\n")
    try:
        kill(postmaster(data_dir) or 0)
        with capture_logs() as lines:
            await server.keep_alive()
            await server.keep_alive()
    finally:
        settings.write_text(original)
    [line] = lines
    assert line["log_level"] == "error"
    assert "did not start" in line["reason"]
    with capture_logs() as lines:
        await server.keep_alive()
    assert [line["event"] for line in lines] == ["the embedded PostgreSQL had died and was restarted"]
    assert query(url, "SELECT 1") == 1
    server.stop()


def test_cause_of_a_failed_start_precedes_the_shutdown() -> None:
    output = """LOG:  starting PostgreSQL
PANIC:  could not write to file "pg_wal/xlogtemp.7": No space left on device
FATAL:  the database system is not yet accepting connections
DETAIL:  Consistent recovery state has not been yet reached.
LOG:  terminating any other active server processes
LOG:  shutting down due to startup process failure
LOG:  database system is shut down
"""
    assert _cause(output) == " / ".join(output.splitlines()[:2])


def test_account_is_made_once_by_concurrent_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = tmp_path / "made"
    useradd = tmp_path / "useradd"
    useradd.write_text(f"#!/bin/sh\nsleep 0.2\necho made >> {made}\n")  # a real one checks, then locks
    useradd.chmod(0o755)

    def find_account(name: str) -> pwd.struct_passwd:
        if made.exists():
            return pwd.getpwuid(0)
        raise KeyError(name)

    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr("hostsvc.embedded_postgres.pwd.getpwnam", find_account)
    with ThreadPoolExecutor(4) as starts:
        accounts = [start.result() for start in [starts.submit(_system_account) for _ in range(4)]]

    assert accounts == [pwd.getpwuid(0)] * 4
    assert made.read_text() == "made\n"


def test_missing_account_for_root_is_reported_with_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    useradd = tmp_path / "useradd"
    useradd.write_text("#!/bin/sh\necho cannot lock /etc/passwd >&2\nexit 1\n")
    useradd.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("hostsvc.embedded_postgres._SYSTEM_USER", "nobody-by-this-name")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    with pytest.raises(EmbeddedPostgresError, match=r'"nobody-by-this-name".*cannot lock /etc/passwd.*url'):
        EmbeddedPostgres(tmp_path / "data").start()


def test_directory_that_is_opened_to_other_users_is_logged(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with capture_logs() as lines:
        _allow_traversal(closed / "data")
        _allow_traversal(closed / "data")
    assert stat.S_IMODE(closed.stat().st_mode) == 0o701
    [line] = [line for line in lines if line["directory"] == str(closed)]
    assert (line["log_level"], line["mode_before"], line["mode_now"]) == ("warning", "0700", "0701")
    assert "move database.data_dir elsewhere" in line["event"]
