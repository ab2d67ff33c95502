"""What `hostsvc doctor` finds, and what it says to do."""

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Thread

import psycopg2
import pytest

from hostsvc.cli import doctor
from tests.hostsvc.cli.shell import hostsvc
from tests.postgres import TestServer, url_as


def lines(directory: Path, url: str, **environment: str) -> tuple[int, dict[str, str]]:
    """Return the exit code, and the line of each check by its name."""
    done = hostsvc(directory, "doctor", HOSTSVC__DATABASE__URL=url, **environment)
    first, *others = done.out.splitlines()
    assert first.startswith("the configuration is valid"), done
    return done.code, {line.split()[0]: line.split(maxsplit=1)[1] for line in others}


def test_healthy_machine_has_a_line_for_each_check(tmp_path: Path, database_url: str) -> None:
    code, found = lines(tmp_path, database_url)
    assert code == 0
    assert list(found) == ["database", "signup", "descriptors", "disk", "harness", "models", "mail"]
    assert {line.split()[0] for line in found.values()} == {"ok"}
    assert "the schema is current" in found["database"]


def test_paused_instance_is_found(tmp_path: Path, database_url: str) -> None:
    assert hostsvc(tmp_path, "pause", "--all", HOSTSVC__DATABASE__URL=database_url).code == 0
    code, found = lines(tmp_path, database_url, HOSTSVC__ACCOUNTS__SIGNUP="closed")
    assert code == 1
    assert found["database"].startswith("FAILED  The whole instance is paused since 20")
    assert found["database"].endswith("Nothing starts until an operator runs hostsvc unpause --all.")
    assert found["signup"].startswith("ok      closed")


def test_pending_migrations_are_counted(tmp_path: Path, empty_database_url: str) -> None:
    code, found = lines(tmp_path, empty_database_url)
    assert code == 0
    assert "migrations that `hostsvc serve` applies" in found["database"]


def test_invalid_configuration_is_all_that_is_reported(tmp_path: Path) -> None:
    done = hostsvc(tmp_path, "doctor", HOSTSVC__SERVER__PORT="x")
    assert (done.code, done.out) == (2, "")


def test_each_problem_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "MIN_FREE_GB", shutil.disk_usage("/").total)
    environment = {
        "HOSTSVC__SERVER__MAX_CONNECTIONS": "65536",
        "HOSTSVC__SERVER__BASE_URL": "http://agents.example.org",
        "HOSTSVC__MODELS__NEAR__BASE_URL": "http://127.0.0.1:1/v1",
        "HOSTSVC__MAIL__HOST": "127.0.0.1",
        "HOSTSVC__MAIL__PORT": "1",
        "HOSTSVC__MAIL__SENDER": "hostsvc@example.org",
    }
    monkeypatch.setattr(doctor, "connections_within", lambda *_: 1000)
    code, found = lines(tmp_path, "postgresql://127.0.0.1:1/none", **environment)
    assert code == 1
    assert found.pop("signup").startswith("ok      open to everybody")
    assert found.pop("harness").startswith("ok      builtin")
    assert {line.split()[0] for line in found.values()} == {"FAILED"}
    assert "start the database 127.0.0.1:1/none, or correct database.url" in found["database"]
    assert found["descriptors"].endswith("leave 1000 connections: raise ulimit -n, or LimitNOFILE=")
    assert found["disk"].endswith("make room, or shorten [retention]")
    assert found["models"].endswith("correct [models], or let this machine reach it")
    assert found["mail"].endswith("correct [mail], or let this machine reach it")


@pytest.mark.parametrize(("wanted", "said"), [("auto", "FAILED"), ("none", "ok")])
def test_code_of_agents_that_nothing_contains_is_found(
    tmp_path: Path, database_url: str, wanted: str, said: str
) -> None:
    repository, without_bubblewrap = tmp_path / "repository", tmp_path / "bin"
    subprocess.run(["git", "init", "-q", repository], check=True)
    without_bubblewrap.mkdir()
    for program in Path("/usr/bin").iterdir():
        if program.name != "bwrap":
            (without_bubblewrap / program.name).symlink_to(program)
    environment = {
        "HOSTSVC__HARNESS__KIND": "process",
        "HOSTSVC__HARNESS__REPOSITORY": str(repository),
        "HOSTSVC__HARNESS__COMMAND": '["true"]',
        "HOSTSVC__HARNESS__CONTAINMENT": wanted,
        "PATH": str(without_bubblewrap),
    }
    _, found = lines(tmp_path, database_url, **environment)
    assert found["harness"].startswith(f"{said:<7} nothing contains runs")


def test_role_without_the_rights_of_the_service_is_found(
    tmp_path: Path, database_url: str, postgres_server: TestServer
) -> None:
    with postgres_server.role() as role:
        _, found = lines(tmp_path, url_as(database_url, role))
        assert "GRANT CREATE ON SCHEMA public" in found["database"]
        with closing(psycopg2.connect(database_url)) as connection, connection, connection.cursor() as cursor:
            cursor.execute(f"GRANT CREATE ON SCHEMA public TO {role}")
        _, found = lines(tmp_path, url_as(database_url, role))
        assert "another role owns the tables" in found["database"]


def test_other_clock_of_the_database_is_found(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "MAX_CLOCK_SECONDS", -1.0)
    _, found = lines(tmp_path, database_url)
    assert found["database"].endswith("let NTP set both")


@contextmanager
def provider(status: bytes) -> Iterator[str]:
    """Answer one request with this status."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(
                    b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                )

        thread = Thread(target=answer)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        thread.join()


@pytest.mark.parametrize(("status", "said"), [(b"200 OK", "ok"), (b"401 No", "FAILED"), (b"404 No", "ok")])
def test_provider_that_refuses_the_key_is_named(
    tmp_path: Path, database_url: str, status: bytes, said: str
) -> None:
    with provider(status) as url:
        settings = {"HOSTSVC__MODELS__NEAR__BASE_URL": url, "HOSTSVC__MODELS__NEAR__API_KEY_ENV": "NEAR_KEY"}
        _, found = lines(tmp_path, database_url, **settings, NEAR_KEY="secret")
    assert found["models"].startswith(said)
    assert ("near refuses the key in NEAR_KEY: set another one" in found["models"]) == (said == "FAILED")
    assert "secret" not in found["models"]
