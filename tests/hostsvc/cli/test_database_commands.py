"""The commands that maintain the database: what they print, and what they do to it."""

from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from storage.encryption import key_id, parse_key
from storage.postgres.migrations import read_migrations
from tests.hostsvc.cli.shell import Finished, Shell, finished, hostsvc, refusal

NAMES = [migration.name for migration in read_migrations()]

INSERT_OLD = """
WITH owner AS (INSERT INTO organization VALUES (gen_random_uuid(), 'Acme', false, now()) RETURNING id)
INSERT INTO trace (id, organization_id, agent_id, name, started_at)
SELECT gen_random_uuid(), id, gen_random_uuid(), 'old', now() - interval '50 days' FROM owner
"""


INSERT_CLEAR = """
WITH owner AS (INSERT INTO organization VALUES (gen_random_uuid(), 'Acme', false, now()) RETURNING id),
     token AS (UPDATE instance SET token_secret = 'in clear')
INSERT INTO template (id, organization_id, name, tool_call_secret, created_at)
SELECT gen_random_uuid(), id, 'Clerk', 'whsec_1', now() FROM owner
"""
OLD_KEY, NEW_KEY = "A" * 43, "B" * 42 + "A"


def rows(url: str, sql: str) -> list[Any]:
    with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


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


def test_operator_token_is_stored_under_the_configured_key(tmp_path: Path, database_url: str) -> None:
    settings = {"HOSTSVC__DATABASE__URL": database_url}
    first = hostsvc(tmp_path, "operator-token", HOSTSVC__ACCOUNTS__ENCRYPTION_KEYS=OLD_KEY, **settings)
    again = hostsvc(
        tmp_path, "operator-token", HOSTSVC__ACCOUNTS__ENCRYPTION_KEYS=f"{NEW_KEY},{OLD_KEY}", **settings
    )
    assert (first.code, first.err, again.out) == (0, "", first.out), first
    assert rows(database_url, "SELECT operator_token LIKE 'hostsvc:1:%' FROM instance") == [(True,)]
    line = refusal(hostsvc(tmp_path, "operator-token", **settings))
    assert "instance.operator_token cannot be decrypted" in line


def test_rotate_keys_encrypts_all_and_retires_old_keys(tmp_path: Path, database_url: str) -> None:
    def rotate(keys: str) -> Finished:
        return hostsvc(
            tmp_path,
            "rotate-keys",
            HOSTSVC__DATABASE__URL=database_url,
            HOSTSVC__ACCOUNTS__ENCRYPTION_KEYS=keys,
        )

    assert "accounts.encryption_keys is empty; set it to a key made by" in refusal(rotate(""))
    execute(database_url, INSERT_CLEAR)
    kinds = {
        "secrets of the installation": 1,
        "secrets of templates": 1,
        "adapter configs": 0,
        "secrets for code and tools": 0,
        "secrets of event webhooks": 0,
    }
    counts = [f"{kind}: {count}" for kind, count in kinds.items()]
    old, new = key_id(parse_key(OLD_KEY)), key_id(parse_key(NEW_KEY))
    for keys, encrypted, end in (
        (OLD_KEY, (1, 1, 0, 0, 0), f"{old}; it is the only one"),
        (f"{NEW_KEY},{OLD_KEY}", (1, 1, 0, 0, 0), f"{new}; {old} may be removed"),
        (NEW_KEY, (0, 0, 0, 0, 0), f"{new}; it is the only one"),
    ):
        done = rotate(keys)
        assert (done.code, done.err) == (0, ""), done
        assert done.out.splitlines() == [
            *(f"{line}, encrypted now: {count}" for line, count in zip(counts, encrypted, strict=True)),
            f"every secret is encrypted with the key {end}",
        ]
    assert f"with the key {new}, which is not in accounts.encryption_keys" in refusal(rotate(OLD_KEY))


def test_rotate_keys_keeps_keys_while_a_secret_is_unreadable(tmp_path: Path, database_url: str) -> None:
    execute(database_url, INSERT_CLEAR)
    execute(database_url, "UPDATE template SET tool_call_secret = 'hostsvc:1:0123abcd:AAAA'")
    done = hostsvc(
        tmp_path,
        "rotate-keys",
        HOSTSVC__DATABASE__URL=database_url,
        HOSTSVC__ACCOUNTS__ENCRYPTION_KEYS=f"{NEW_KEY},{OLD_KEY}",
    )
    assert done.code == 1
    assert "its key 0123abcd is not in accounts.encryption_keys" in done.err
    assert "keep all keys" in done.err
    assert rows(database_url, "SELECT rotated_at FROM encryption_key") == [(None,)]


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
            "removed 0 turns no longer carried",
            "removed 0 webhook deliveries",
            "removed 0 events",
            "removed 0 deleted documents",
            "removed 0 deleted agents, with their traces and usage",
            "removed 0 contents of spans",
        ]
