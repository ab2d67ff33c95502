"""The commands as a shell sees them: what they print, where, and their exit code."""

import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

import psycopg2
import pytest

from storage.postgres.migrations import read_migrations
from tests.curl import environment_with_curl

ANY_PORT = {"HOSTSVC__SERVER__PORT": "0"}
NAMES = [migration.name for migration in read_migrations()]


Process = subprocess.Popen[str]


@dataclass(frozen=True)
class Finished:
    """A finished command."""

    code: int
    out: str
    err: str


def hostsvc(directory: Path, *arguments: str, **environment: str) -> Finished:
    with started(directory, *arguments, **environment) as process:
        return finished(process)


@contextmanager
def started(directory: Path, *arguments: str, **environment: str) -> Iterator[Process]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "hostsvc", *arguments],
        cwd=directory,
        env=kept | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def first_line(process: Process) -> str:
    assert process.stdout
    return process.stdout.readline().rstrip()


def finished(process: Process) -> Finished:
    out, err = process.communicate(timeout=60)
    return Finished(process.returncode, out, err)


def refusal(done: Finished) -> str:
    """The one line of a refused command."""
    assert done.code == 2, done
    assert done.out == "", done
    (line,) = done.err.splitlines()
    assert line.startswith("hostsvc: ")
    return line.removeprefix("hostsvc: ")


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """Not pytest's own directory, through which a server started by root may not pass."""
    with tempfile.TemporaryDirectory(prefix="hostsvc-tests-") as directory:
        yield Path(directory)


def test_check_config_without_a_file_says_that_the_defaults_are_used(tmp_path: Path) -> None:
    done = hostsvc(tmp_path, "check-config")
    assert (done.code, done.out) == (
        0,
        "the configuration is valid; it comes from the defaults\n",
    ), done


def test_check_config_names_the_file_and_the_variables(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("[server]\nport = 9000\n")
    done = hostsvc(tmp_path, "check-config", "--config", "mine.toml", HOSTSVC__LOG__LEVEL="debug")
    assert (done.code, done.out) == (
        0,
        "the configuration is valid; it comes from mine.toml, HOSTSVC__LOG__LEVEL\n",
    ), done


@pytest.mark.parametrize("command", ["check-config", "migrate", "operator-token", "serve", "demo"])
def test_every_command_refuses_an_unknown_key_by_one_line(tmp_path: Path, command: str) -> None:
    (tmp_path / "config.toml").write_text("[server]\nprot = 9000\n")
    line = refusal(hostsvc(tmp_path, command))
    assert line.startswith("config.toml: server.prot: there is no such key; [server] has host, port")


@pytest.mark.parametrize("command", ["check-config", "serve"])
def test_a_providers_key_that_is_not_set_is_one_line_that_names_its_variable(
    tmp_path: Path, command: str
) -> None:
    (tmp_path / "config.toml").write_text("[models.a]\nbase_url = 'http://a'\napi_key_env = 'THE_KEY'\n")
    line = refusal(hostsvc(tmp_path, command))
    assert line == "models.a.api_key_env: the variable THE_KEY is not set; it takes the key of the provider"


def test_a_missing_configuration_file_is_refused_by_its_name(tmp_path: Path) -> None:
    line = refusal(hostsvc(tmp_path, "check-config", "--config", "nowhere.toml"))
    assert line == "nowhere.toml: cannot be read: No such file or directory"


@pytest.mark.parametrize("command", ["migrate", "operator-token", "serve"])
def test_an_unreachable_database_is_one_line_that_says_what_to_do(tmp_path: Path, command: str) -> None:
    nobody_listens = "postgresql://somebody:hunter2@127.0.0.1:1/nothing"
    line = refusal(hostsvc(tmp_path, command, HOSTSVC__DATABASE__URL=nobody_listens, **ANY_PORT))
    assert line.startswith("the database 127.0.0.1:1/nothing: ")
    assert line.endswith("; start it, or correct database.url")
    assert "hunter2" not in line


def test_a_configured_operator_token_is_printed_without_a_database(tmp_path: Path) -> None:
    done = hostsvc(
        tmp_path,
        "operator-token",
        HOSTSVC__OPERATOR__TOKEN="chosen",
        HOSTSVC__DATABASE__URL="postgresql://127.0.0.1:1/nothing",
    )
    assert (done.code, done.out, done.err) == (0, "chosen\n", ""), done


def test_a_data_directory_that_cannot_be_made_is_one_line_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    line = refusal(hostsvc(tmp_path, "migrate", HOSTSVC__DATABASE__DATA_DIR="taken/postgres"))
    assert str(tmp_path / "taken/postgres") in line
    assert "database.data_dir" in line


def test_migrate_reports_what_is_pending_then_what_it_applied_then_nothing(
    tmp_path: Path, empty_database_url: str
) -> None:
    def migrate(*arguments: str) -> tuple[int, list[str]]:
        done = hostsvc(tmp_path, "migrate", *arguments, HOSTSVC__DATABASE__URL=empty_database_url)
        assert done.err == "", done
        return done.code, done.out.splitlines()

    assert migrate("--check") == (1, [f"pending {name}" for name in NAMES])
    assert migrate() == (0, [f"applied {name}" for name in NAMES])
    assert migrate("--check") == (0, ["nothing to apply"])
    assert migrate() == (0, ["nothing to apply"])


@pytest.mark.parametrize("command", [["migrate"], ["migrate", "--check"], ["operator-token"], ["serve"]])
def test_a_newer_schema_is_refused_by_one_line(tmp_path: Path, database_url: str, command: list[str]) -> None:
    with psycopg2.connect(database_url) as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO schema_migration VALUES (9999, '9999_future.sql', 'x')")
    connection.close()
    line = refusal(hostsvc(tmp_path, *command, HOSTSVC__DATABASE__URL=database_url, **ANY_PORT))
    assert "9999_future.sql" in line


@pytest.mark.parametrize("database", ["empty_database_url", "database_url"])
def test_the_operator_token_is_made_once_and_kept(
    tmp_path: Path, database: str, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue(database)
    first, second = (hostsvc(tmp_path, "operator-token", HOSTSVC__DATABASE__URL=url) for _ in range(2))
    assert (first.code, first.err) == (0, ""), first
    assert len(first.out.strip()) >= 32
    assert second.out == first.out
    with psycopg2.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT operator_token FROM instance")
        assert cursor.fetchone() == (first.out.strip(),)
    connection.close()


def test_a_blank_url_means_an_embedded_database_that_keeps_its_data(data_dir: Path) -> None:
    first, second = (
        hostsvc(data_dir, "operator-token", HOSTSVC__DATABASE__DATA_DIR="data") for _ in range(2)
    )
    assert (first.code, first.err) == (0, ""), first
    assert second.out == first.out


def test_serve_says_where_it_listens_and_ends_with_0_when_asked_to(tmp_path: Path, database_url: str) -> None:
    with started(tmp_path, "serve", HOSTSVC__DATABASE__URL=database_url, **ANY_PORT) as service:
        line = first_line(service)
        assert re.fullmatch(r"hostsvc: listening on http://127\.0\.0\.1:\d+", line)
        ready = HTTPConnection(line.removeprefix("hostsvc: listening on http://"))
        ready.request("GET", "/readyz")
        assert ready.getresponse().status == 200
        ready.close()
        service.terminate()
        done = finished(service)
    assert (done.code, done.out) == (0, ""), done


def test_a_second_instance_says_that_it_stands_by_and_takes_over(tmp_path: Path, database_url: str) -> None:
    place = {"HOSTSVC__DATABASE__URL": database_url, **ANY_PORT}
    with started(tmp_path, "serve", **place) as first:
        assert "listening" in first_line(first)
        with started(tmp_path, "serve", **place) as second:
            standing_by = first_line(second)
            assert standing_by.startswith("hostsvc: standing by on http://127.0.0.1:")
            first.kill()
            assert first_line(second) == standing_by.replace("standing by", "listening")
            second.terminate()
            assert finished(second).code == 0


def test_the_guide_s_lines_make_an_account_and_a_key(tmp_path: Path, database_url: str) -> None:
    with started(tmp_path, "serve", "--guide", HOSTSVC__DATABASE__URL=database_url, **ANY_PORT) as service:
        lines = [first_line(service) for _ in range(10)]
        to_paste = "\n".join(lines[lines.index("") + 3 :])
        pasted = subprocess.run(
            ["bash", "-c", to_paste],
            env=environment_with_curl(tmp_path),
            capture_output=True,
            text=True,
            check=True,
        )
    assert pasted.stdout == "[]", (to_paste, pasted)


def test_a_port_in_use_is_one_line_that_names_it(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        line = refusal(hostsvc(tmp_path, "serve", HOSTSVC__SERVER__PORT=port))
    assert line == f"port {port} on 127.0.0.1 is in use: stop what uses it, or set another server.port"


@pytest.mark.parametrize("host", ["192.0.2.1", "nowhere.invalid"])
def test_a_host_that_is_not_of_this_machine_is_one_line_that_names_it(tmp_path: Path, host: str) -> None:
    line = refusal(hostsvc(tmp_path, "serve", HOSTSVC__SERVER__HOST=host))
    assert line.startswith(f"port 8080 on {host} cannot be listened on: ")
    assert line.endswith("; correct server.host or server.port")


def test_the_demo_keeps_its_promises(data_dir: Path) -> None:
    done = hostsvc(data_dir, "demo", TMPDIR=str(data_dir))
    assert (done.code, done.err) == (0, ""), done
    assert "one wake for 3 texts" in done.out
    assert list(data_dir.iterdir()) == []


def test_a_demo_that_is_asked_to_end_leaves_nothing_behind(data_dir: Path) -> None:
    with started(data_dir, "demo", TMPDIR=str(data_dir)) as demo:
        assert "serves on http://127.0.0.1:" in first_line(demo)
        demo.terminate()
        done = finished(demo)
    assert (done.code, done.err) == (0, ""), done
    assert list(data_dir.iterdir()) == []
