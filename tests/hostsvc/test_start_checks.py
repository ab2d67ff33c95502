"""Checks of a valid configuration against this machine."""

import errno
import os
import socket
from pathlib import Path

import pytest

from hostsvc.config import ClusterSettings, Config, DatabaseChoice, NodeSettings, ServerSettings
from hostsvc.process_harness.settings import HarnessSettings
from hostsvc.start_checks import start_errors
from supervisors.settings import RunSettings


def errors(config: Config, *invalid: str) -> list[str]:
    return list(start_errors(config, {*invalid}, os.environ))


def test_defaults_can_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert errors(Config()) == []
    assert os.listdir(tmp_path) == []


def test_every_reason_against_a_start_is_found(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    config = Config(
        server=ServerSettings(host="192.0.2.1"),
        database=DatabaseChoice(data_dir=tmp_path / "taken/data"),
        runs=RunSettings(default_provider="nobody"),
        harness=HarnessSettings(
            kind="process", repository="x", command=("run",), cache_dir=tmp_path / "taken/cache"
        ),
    )
    correct = "correct server.host or server.port"
    taken = f"{tmp_path}/taken is not a directory"
    assert errors(config) == [
        "runs.default_provider must be one of builtin, got 'nobody'",
        f"cannot listen on port 8080 on 192.0.2.1: {os.strerror(errno.EADDRNOTAVAIL)}; {correct}",
        f"database.data_dir cannot be created: {taken}; set database.data_dir to another one",
        f"harness.cache_dir cannot be created: {taken}; set harness.cache_dir to another one",
    ]
    assert errors(config, "server", "database", "runs", "harness") == []
    assert errors(config, "") == []


def test_port_in_use_is_not_an_error_of_the_configuration() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert errors(Config(server=ServerSettings(port=taken.getsockname()[1]))) == []


def test_address_of_another_machine_is_refused_for_nodes() -> None:
    (message,) = errors(Config(cluster=ClusterSettings("192.0.2.1")))
    assert message.startswith("cannot listen on 192.0.2.1: ")
    assert message.endswith("; correct cluster.address")


def test_public_address_is_not_checked_without_the_role_http() -> None:
    server = ServerSettings(host="192.0.2.1")
    assert errors(Config(server=server, node=NodeSettings(roles=("runs",)))) == []


def test_missing_git_is_found_before_the_start() -> None:
    harness = HarnessSettings(kind="process", repository="x", command=("run",))
    found = list(start_errors(Config(harness=harness), set(), {"PATH": "/nowhere"}))
    assert found[0] == 'git is not on the PATH: install it, or set harness.kind to "builtin"'
