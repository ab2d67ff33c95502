"""The commands as a shell sees them: what they print, where, and their exit code."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


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
