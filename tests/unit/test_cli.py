"""The commands as a shell sees them: what they print, where, and their exit code."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg2
import pytest

from storage.migrate import read_migrations

NAMES = [migration.name for migration in read_migrations()]


class Finished:
    """A finished command; a failing comparison shows all of it."""

    def __init__(self, process: subprocess.CompletedProcess[str]) -> None:
        self.code, self.out, self.err = process.returncode, process.stdout, process.stderr

    def __repr__(self) -> str:
        return f"<exit {self.code}\nstdout: {self.out}\nstderr: {self.err}>"


def hostsvc(directory: Path, *arguments: str, **environment: str) -> Finished:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    return Finished(
        subprocess.run(
            [sys.executable, "-W", "error", "-m", "hostsvc", *arguments],
            cwd=directory,
            env=kept | environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    )


def refusal(finished: Finished) -> str:
    """The one line of a refused command."""
    assert finished.code == 2, finished
    assert finished.out == "", finished
    (line,) = finished.err.splitlines()
    assert line.startswith("hostsvc: ")
    return line.removeprefix("hostsvc: ")


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """Not pytest's own directory, through which a server started by root may not pass."""
    with tempfile.TemporaryDirectory(prefix="hostsvc-tests-") as directory:
        yield Path(directory)


def test_check_config_without_a_file_says_that_the_defaults_are_used(tmp_path: Path) -> None:
    finished = hostsvc(tmp_path, "check-config")
    assert (finished.code, finished.out) == (
        0,
        "the configuration is valid; it comes from the defaults\n",
    ), finished


def test_check_config_names_the_file_and_the_variables(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("[server]\nport = 9000\n")
    finished = hostsvc(tmp_path, "check-config", "--config", "mine.toml", HOSTSVC__LOG__LEVEL="debug")
    assert (finished.code, finished.out) == (
        0,
        "the configuration is valid; it comes from mine.toml, HOSTSVC__LOG__LEVEL\n",
    ), finished


@pytest.mark.parametrize("command", ["check-config", "migrate", "operator-token"])
def test_every_command_refuses_an_unknown_key_by_one_line(tmp_path: Path, command: str) -> None:
    (tmp_path / "config.toml").write_text("[server]\nprot = 9000\n")
    line = refusal(hostsvc(tmp_path, command))
    assert line.startswith("config.toml: server.prot: there is no such key; [server] has host, port")


def test_a_missing_configuration_file_is_refused_by_its_name(tmp_path: Path) -> None:
    line = refusal(hostsvc(tmp_path, "check-config", "--config", "nowhere.toml"))
    assert line == "nowhere.toml: cannot be read: No such file or directory"


@pytest.mark.parametrize("command", ["migrate", "operator-token"])
def test_an_unreachable_database_is_one_line_that_says_what_to_do(tmp_path: Path, command: str) -> None:
    nobody_listens = "postgresql://somebody:hunter2@127.0.0.1:1/nothing"
    line = refusal(hostsvc(tmp_path, command, HOSTSVC__DATABASE__URL=nobody_listens))
    assert line.startswith("the database is not available: ")
    assert "127.0.0.1" in line
    assert line.endswith("; start it, or correct database.url")
    assert "hunter2" not in line


def test_a_configured_operator_token_is_printed_without_a_database(tmp_path: Path) -> None:
    finished = hostsvc(
        tmp_path,
        "operator-token",
        HOSTSVC__OPERATOR__TOKEN="chosen",
        HOSTSVC__DATABASE__URL="postgresql://127.0.0.1:1/nothing",
    )
    assert (finished.code, finished.out, finished.err) == (0, "chosen\n", ""), finished


def test_a_data_directory_that_cannot_be_made_is_one_line_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    line = refusal(hostsvc(tmp_path, "migrate", HOSTSVC__DATABASE__DATA_DIR="taken/postgres"))
    assert str(tmp_path / "taken/postgres") in line
    assert "database.data_dir" in line


def test_migrate_reports_what_is_pending_then_what_it_applied_then_nothing(
    tmp_path: Path, empty_database_url: str
) -> None:
    def migrate(*arguments: str) -> tuple[int, list[str]]:
        finished = hostsvc(tmp_path, "migrate", *arguments, HOSTSVC__DATABASE__URL=empty_database_url)
        assert finished.err == "", finished
        return finished.code, finished.out.splitlines()

    assert migrate("--check") == (1, [f"pending {name}" for name in NAMES])
    assert migrate() == (0, [f"applied {name}" for name in NAMES])
    assert migrate("--check") == (0, ["nothing to apply"])
    assert migrate() == (0, ["nothing to apply"])


@pytest.mark.parametrize("command", [["migrate"], ["migrate", "--check"], ["operator-token"]])
def test_a_newer_schema_is_refused_by_one_line(tmp_path: Path, database_url: str, command: list[str]) -> None:
    with psycopg2.connect(database_url) as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO schema_migration VALUES (9999, '9999_future.sql', 'x')")
    connection.close()
    line = refusal(hostsvc(tmp_path, *command, HOSTSVC__DATABASE__URL=database_url))
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
