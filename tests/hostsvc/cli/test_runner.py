"""Errors of commands: one line on stderr that says what is wrong and what to do, and exit code 2."""

import errno
import logging
import os
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from hostsvc.cli.runner import NotFound, error_message, run_command, run_service
from hostsvc.config import Config
from hostsvc.workers import Worker
from storage.errors import DatabaseUnavailable
from storage.events.model import BY_OPERATOR
from storage.postgres.asker import ASKER
from tests.hostsvc.cli.shell import Shell, finished, hostsvc, inherited, refusal

UNAVAILABLE = "the database is unavailable"
NOBODY_LISTENS = "postgresql://somebody:hunter2@127.0.0.1:1/nothing"
UNREACHABLE = (
    "the database is unavailable: connection refused by 127.0.0.1:1{waited}; "
    "start the database 127.0.0.1:1/nothing, or correct database.url"
)


@pytest.mark.parametrize("command", ["migrate", "operator-token", "vacuum"])
def test_unreachable_database_is_one_line_with_advice(tmp_path: Path, command: str) -> None:
    line = refusal(hostsvc(tmp_path, command, HOSTSVC__DATABASE__URL=NOBODY_LISTENS))
    assert line == UNREACHABLE.format(waited="")


@pytest.mark.parametrize(
    ("options", "waited"), [((), ""), (("--wait-for-database", "0.1"), ", after a wait of 0.1 s")]
)
def test_serve_on_unreachable_database_is_one_line_with_advice(
    tmp_path: Path, shell: Shell, options: tuple[str, ...], waited: str
) -> None:
    settings = {"HOSTSVC__DATABASE__URL": NOBODY_LISTENS, "HOSTSVC__SERVER__PORT": "0"}
    with shell.start(tmp_path, "serve", *options, **settings) as process:
        assert refusal(finished(process)) == UNREACHABLE.format(waited=waited)


def test_unusable_data_directory_is_one_line_naming_it(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    line = refusal(hostsvc(tmp_path, "migrate", HOSTSVC__DATABASE__DATA_DIR="taken/postgres"))
    assert str(tmp_path / "taken/postgres") in line
    assert "database.data_dir" in line


def test_port_in_use_is_one_line_naming_it(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        line = refusal(hostsvc(tmp_path, "serve", HOSTSVC__SERVER__PORT=port))
    assert line == (
        f"port {port} on 127.0.0.1 is in use: stop the program that uses it, or set another server.port"
    )


@pytest.mark.parametrize("host", ["192.0.2.1", "nowhere.invalid"])
def test_host_of_another_machine_is_one_line_naming_it(tmp_path: Path, host: str) -> None:
    line = refusal(hostsvc(tmp_path, "serve", HOSTSVC__SERVER__HOST=host))
    assert line.startswith(f"cannot listen on port 8080 on {host}: ")
    assert line.endswith("; correct server.host or server.port")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (NotFound("there is no agent 7"), "there is no agent 7"),
        (OSError(errno.ENOSPC, "No space left on device", "/data"), "/data: No space left on device"),
        (OSError("odd"), "the system: odd"),
        (
            DatabaseUnavailable("refused"),
            f"{UNAVAILABLE}: refused; start the embedded database in data, or correct database.url",
        ),
        (
            DatabaseUnavailable("could not write init file: No space left on device"),
            (
                "the disk of the embedded database in data is full (could not write init file: "
                "No space left on device): make room on it, then try again"
            ),
        ),
    ],
)
def test_error_message_names_what_failed(error: Exception, message: str) -> None:
    assert error_message(error, Config()) == message


@pytest.mark.parametrize(
    ("is_service", "level", "expected"),
    [
        (False, "info", logging.WARNING),
        (False, "debug", logging.DEBUG),
        (True, "info", logging.INFO),
    ],
)
def test_run_command_logs_warnings_unless_it_is_a_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_service: bool, level: str, expected: int
) -> None:
    async def work(config: Config, _: Worker | None = None) -> int:
        assert config.log.level == level
        return 7

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOSTSVC__LOG__LEVEL", level)
    run = partial(run_service, None, announce=lambda *_: None) if is_service else partial(run_command, None)
    with pytest.raises(SystemExit) as ended:
        run(work=work)
    assert ended.value.code == 7
    assert logging.getLogger().level == expected


def test_command_is_the_operators_and_nothing_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(_: Config) -> int:
        asker = ASKER.get()
        return 7 if asker and asker.actor == BY_OPERATOR else 0

    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        run_command(None, work)
    assert (ended.value.code, ASKER.get()) == (7, None)


def test_closed_pipe_ends_a_command_in_silence(tmp_path: Path, database_url: str) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    ended = subprocess.run(
        [sys.executable, "-m", "hostsvc", "migrate", "--check"],
        cwd=tmp_path,
        env=inherited() | {"HOSTSVC__DATABASE__URL": database_url},
        stdout=write_end,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(write_end)
    assert (ended.returncode, ended.stderr) == (1, b"")


def test_run_command_refuses_multi_line_errors_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def work(_: Config) -> int:
        raise NotFound("there is\n  nothing")

    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        run_command(None, work)
    assert ended.value.code == 2
    assert capsys.readouterr().err == "hostsvc: there is nothing\n"


def test_run_command_does_not_catch_other_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(_: Config) -> int:
        raise LookupError("a bug")

    monkeypatch.chdir(tmp_path)
    with pytest.raises(LookupError):
        run_command(None, work)
