"""`hostsvc migrate`, `operator-token` and `vacuum`: what they print, and what they do to the database."""

from contextlib import closing
from pathlib import Path

import psycopg2
import pytest

from storage.postgres.migrations import read_migrations
from tests.hostsvc.cli.shell import Shell, finished, hostsvc, refusal

NAMES = [migration.name for migration in read_migrations()]

INSERT_OLD = """
WITH owner AS (INSERT INTO organization VALUES (gen_random_uuid(), 'Acme', false, now()) RETURNING id)
INSERT INTO trace (id, organization_id, agent_id, name, started_at)
SELECT gen_random_uuid(), id, gen_random_uuid(), 'old', now() - interval '50 days' FROM owner
"""


def execute(url: str, sql: str) -> None:
    with closing(psycopg2.connect(url)) as connection, connection, connection.cursor() as cursor:
        cursor.execute(sql)


def test_migrate_reports_pending_then_applied_then_nothing(tmp_path: Path, empty_database_url: str) -> None:
    def migrate(*arguments: str) -> tuple[int, list[str]]:
        done = hostsvc(tmp_path, "migrate", *arguments, HOSTSVC__DATABASE__URL=empty_database_url)
        assert done.err == "", done
        return done.code, done.out.splitlines()

    assert migrate("--check") == (1, [f"pending {name}" for name in NAMES])
    assert migrate() == (0, [f"applied {name}" for name in NAMES])
    assert migrate("--check") == (0, ["nothing to apply"])
    assert migrate() == (0, ["nothing to apply"])


@pytest.mark.parametrize("command", [["migrate"], ["migrate", "--check"], ["operator-token"]])
def test_command_refuses_newer_schema_with_one_line(
    tmp_path: Path, database_url: str, command: list[str]
) -> None:
    execute(database_url, "INSERT INTO schema_migration VALUES (9999, '9999_future.sql', 'x')")
    line = refusal(hostsvc(tmp_path, *command, HOSTSVC__DATABASE__URL=database_url))
    assert "9999_future.sql" in line


def test_serve_refuses_newer_schema_with_one_line(tmp_path: Path, shell: Shell, database_url: str) -> None:
    execute(database_url, "INSERT INTO schema_migration VALUES (9999, '9999_future.sql', 'x')")
    settings = {"HOSTSVC__DATABASE__URL": database_url, "HOSTSVC__SERVER__PORT": "0"}
    with shell.start(tmp_path, "serve", **settings) as process:
        assert "9999_future.sql" in refusal(finished(process))


@pytest.mark.parametrize("database", ["empty_database_url", "database_url"])
def test_operator_token_is_created_once_and_stored(
    tmp_path: Path, database: str, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue(database)
    first, second = (hostsvc(tmp_path, "operator-token", HOSTSVC__DATABASE__URL=url) for _ in range(2))
    assert (first.code, first.err) == (0, ""), first
    assert len(first.out.strip()) >= 32
    assert second.out == first.out
    with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT operator_token FROM instance")
        assert cursor.fetchone() == (first.out.strip(),)


def test_configured_operator_token_is_printed_without_a_database(tmp_path: Path) -> None:
    done = hostsvc(
        tmp_path,
        "operator-token",
        HOSTSVC__OPERATOR__TOKEN="chosen",
        HOSTSVC__DATABASE__URL="postgresql://127.0.0.1:1/nothing",
    )
    assert (done.code, done.out, done.err) == (0, "chosen\n", ""), done


def test_vacuum_removes_and_counts_expired_rows(tmp_path: Path, database_url: str) -> None:
    execute(database_url, INSERT_OLD)
    for days, traces in ((51, 0), (49, 1), (49, 0)):
        done = hostsvc(
            tmp_path,
            "vacuum",
            HOSTSVC__DATABASE__URL=database_url,
            HOSTSVC__RETENTION__TRACES=str(days),
            HOSTSVC__RETENTION__USAGE="0",
        )
        assert (done.code, done.err) == (0, ""), done
        assert done.out.splitlines() == [
            "removed 0 rows left by deleted agents",
            "removed 0 cleared notifications",
            f"removed {traces} traces and spans",
            "removed 0 webhook deliveries",
            "removed 0 deleted agents, with their traces and usage",
        ]
