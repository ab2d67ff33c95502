"""Commands that work on the database: upkeep, accounts and organizations."""

import json
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg2
import pytest

from hostsvc.cli.commands import main
from storage.encryption import key_id, parse_key
from storage.ids import new_id
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

INSERT_ORGANIZATION = "INSERT INTO organization (id, name, created_at) VALUES (%s, %s, now())"

INSERT_USER = """
INSERT INTO user_account (id, email, password_hash, created_at) VALUES (gen_random_uuid(), %s, '!', now())
"""

INSERT_ADAPTER = """
WITH owner AS (INSERT INTO organization VALUES (gen_random_uuid(), 'Acme', false, now()) RETURNING id)
INSERT INTO adapter (id, organization_id, name, created_at) SELECT %s, id, 'Mail', now() FROM owner
"""

RESET_CODE = "SELECT reset_code_hash, reset_code_expires_at - now() <= '1 hour' FROM user_account"
VISIBILITY = "SELECT visibility FROM adapter"


def rows(url: str, sql: str) -> list[Any]:
    with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


def execute(url: str, sql: str, *values: str) -> None:
    with closing(psycopg2.connect(url)) as connection, connection, connection.cursor() as cursor:
        cursor.execute(sql, values)


def test_migrate_reports_pending_then_applied_then_nothing(tmp_path: Path, empty_database_url: str) -> None:
    def migrate(*arguments: str) -> tuple[int, list[str]]:
        done = hostsvc(tmp_path, "migrate", *arguments, HOSTSVC__DATABASE__URL=empty_database_url)
        assert done.err == "", done
        return done.code, done.out.splitlines()

    assert migrate("--check") == (1, [f"pending {name}" for name in NAMES])
    assert migrate() == (0, [f"applied {name}" for name in NAMES])
    assert migrate("--check") == (0, ["nothing to apply"])
    assert migrate() == (0, ["nothing to apply"])


@pytest.mark.parametrize(
    "command",
    ["operator-token", "backup b.gz", "pause --all", "vacuum", "migrate --check", "rotate-keys"],
)
def test_commands_create_no_database_where_there_is_none(tmp_path: Path, command: str) -> None:
    done = hostsvc(tmp_path, *command.split(), HOSTSVC__ACCOUNTS__ENCRYPTION_KEYS=OLD_KEY)
    assert refusal(done).startswith(
        f"there is no database in {tmp_path}/data (database.data_dir), and database.url"
    )
    assert "CREDENTIALS_DIRECTORY" in done.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [["migrate"], ["migrate", "--check"], ["operator-token"]])
def test_command_refuses_newer_schema_with_one_line(
    tmp_path: Path, database_url: str, command: list[str]
) -> None:
    execute(
        database_url,
        "INSERT INTO schema_migration (version, name, checksum) VALUES (9999, '9999_future.sql', 'x')",
    )
    line = refusal(hostsvc(tmp_path, *command, HOSTSVC__DATABASE__URL=database_url))
    assert "9999_future.sql" in line


def test_serve_refuses_newer_schema_with_one_line(tmp_path: Path, shell: Shell, database_url: str) -> None:
    execute(
        database_url,
        "INSERT INTO schema_migration (version, name, checksum) VALUES (9999, '9999_future.sql', 'x')",
    )
    settings = {"HOSTSVC__DATABASE__URL": database_url, "HOSTSVC__SERVER__PORT": "0"}
    with shell.start(tmp_path, "serve", **settings) as process:
        assert "9999_future.sql" in refusal(finished(process))


CREATORS = {"serve", "init", "migrate", "restore"}
WITHOUT_DATABASE = {"check-config", "demo", "install-service", "verify"}  # demo has one of its own
ARGUMENTS = {
    "accounts": ["reset-password", "ann@example.com"],
    "adapters": ["publish", str(new_id())],
    "backup": ["b.sql.gz"],
    "pause": ["--all"],
    "unpause": ["--all"],
}


@pytest.mark.parametrize("is_empty", [True, False])
def test_commands_change_no_schema_but_those_that_create_one(
    tmp_path: Path, empty_database_url: str, is_empty: bool
) -> None:
    settings = {"HOSTSVC__DATABASE__URL": empty_database_url, "HOSTSVC__ACCOUNTS__ENCRYPTION_KEYS": OLD_KEY}
    if not is_empty:
        assert hostsvc(tmp_path, "migrate", **settings).code == 0
        execute(
            empty_database_url,
            "DELETE FROM schema_migration WHERE version = (SELECT max(version) FROM schema_migration)",
        )
    reason = (
        "the database is empty" if is_empty else "the database has an older schema: run hostsvc migrate first"
    )
    tables = "SELECT (SELECT count(*) FROM pg_class), (SELECT count(*) FROM pg_trigger)"
    before = rows(empty_database_url, tables)
    for command in sorted(main.commands.keys() - CREATORS - WITHOUT_DATABASE):
        done = hostsvc(tmp_path, command, *ARGUMENTS.get(command, []), **settings)
        assert rows(empty_database_url, tables) == before, command
        if command in {"doctor", "status", "tail"} or (command == "backup" and not is_empty):
            continue  # they look at any schema, or ask the service first
        assert refusal(done).startswith(reason), command


def test_operator_token_is_created_once_and_stored(tmp_path: Path, database_url: str) -> None:
    url = database_url
    first, second = (hostsvc(tmp_path, "operator-token", HOSTSVC__DATABASE__URL=url) for _ in range(2))
    assert (first.code, first.err) == (0, ""), first
    assert len(first.out.strip()) >= 32
    assert second.out == first.out
    assert rows(url, "SELECT operator_token FROM instance") == [(first.out.strip(),)]


def test_operator_token_is_read_from_a_read_only_database(tmp_path: Path, database_url: str) -> None:
    first = hostsvc(tmp_path, "operator-token", HOSTSVC__DATABASE__URL=database_url)
    read_only = f"{database_url}&default_transaction_read_only=on"
    again = hostsvc(tmp_path, "operator-token", HOSTSVC__DATABASE__URL=read_only)
    assert (again.code, again.err, again.out) == (0, "", first.out)


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
        "secrets of inbound hooks": 0,
        "old secrets of inbound hooks": 0,
    }
    counts = [f"{kind}: {count}" for kind, count in kinds.items()]
    old, new = key_id(parse_key(OLD_KEY)), key_id(parse_key(NEW_KEY))
    for keys, encrypted, end in (
        (OLD_KEY, (1, 1, 0, 0, 0, 0, 0), f"{old}; it is the only one"),
        (f"{NEW_KEY},{OLD_KEY}", (1, 1, 0, 0, 0, 0, 0), f"{new}; {old} may be removed"),
        (NEW_KEY, (0, 0, 0, 0, 0, 0, 0), f"{new}; it is the only one"),
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
            "removed 0 parked calls that have ended",
            "removed 0 turns no longer carried",
            "removed 0 webhook deliveries",
            "removed 0 events",
            "removed 0 entries of the audit log",
            "removed 0 deleted documents",
            "removed 0 deleted agents, with their traces and usage",
            "removed 0 contents of spans",
        ]


class Tenants:
    """Runs commands on one database, and reads and writes its rows."""

    def __init__(self, directory: Path, url: str) -> None:
        self.directory = directory
        self.url = url

    def run(self, *arguments: str) -> Finished:
        return hostsvc(self.directory, *arguments, HOSTSVC__DATABASE__URL=self.url)

    def execute(self, sql: str, *values: str) -> None:
        execute(self.url, sql, *values)

    def rows(self, sql: str) -> list[Any]:
        return rows(self.url, sql)

    def insert_organization(self, name: str) -> UUID:
        organization_id = new_id()
        self.execute(INSERT_ORGANIZATION, str(organization_id), name)
        return organization_id

    def insert_adapter(self) -> UUID:
        adapter_id = new_id()
        self.execute(INSERT_ADAPTER, str(adapter_id))
        return adapter_id

    def paused(self) -> list[str]:
        return [name for (name,) in self.rows("SELECT name FROM organization WHERE paused ORDER BY name")]


@pytest.fixture
def tenants(tmp_path: Path, database_url: str) -> Tenants:
    return Tenants(tmp_path, database_url)


def test_reset_password_prints_a_code_and_stores_its_hash(tenants: Tenants) -> None:
    tenants.execute(INSERT_USER, "ann@example.com")

    done = tenants.run("accounts", "reset-password", "Ann@EXAMPLE.com")

    assert (done.code, done.err) == (0, ""), done
    [(stored, is_within_an_hour)] = tenants.rows(RESET_CODE)
    assert bytes(stored) == sha256(done.out.strip().encode()).digest()
    assert is_within_an_hour


def test_reset_password_refuses_unknown_user(tenants: Tenants) -> None:
    line = refusal(tenants.run("accounts", "reset-password", "bob@example.com"))
    assert line == "there is no user with the e-mail address bob@example.com"


def test_pause_and_unpause_accept_id_or_name(tenants: Tenants) -> None:
    organization_id = str(tenants.insert_organization("Acme Inc"))
    tenants.insert_organization("Other")

    paused = tenants.run("pause", organization_id)
    expected = "Acme Inc is paused; a running service follows within 5 s\n"
    assert (paused.code, paused.out, paused.err) == (0, expected, ""), paused
    assert tenants.paused() == ["Acme Inc"]

    unpaused = tenants.run("unpause", "Acme Inc")
    expected = "Acme Inc is no longer paused; a running service follows within 5 s\n"
    assert (unpaused.code, unpaused.out, unpaused.err) == (0, expected, ""), unpaused
    assert tenants.paused() == []
    types_by_operator = [("organization.paused", "operator"), ("organization.unpaused", "operator")]
    assert (
        tenants.rows("SELECT type, actor FROM event WHERE type <> 'audit' ORDER BY id") == types_by_operator
    )


def test_pause_all_pauses_the_instance_until_unpause_all(tenants: Tenants) -> None:
    instance = "SELECT paused_at IS NOT NULL, paused_because FROM instance"
    paused = tenants.run("pause", "--all")
    expected = "the whole instance is paused; a running service follows within 5 s\n"
    assert (paused.code, paused.out, paused.err) == (0, expected, ""), paused
    assert tenants.rows(instance) == [(True, "its operator has paused it")]
    assert tenants.run("unpause", "--all").code == 0
    assert tenants.rows(instance) == [(False, "its operator has paused it")]


def test_audit_prints_what_operators_did_as_a_complete_chain(tenants: Tenants, tmp_path: Path) -> None:
    for command in (["pause", "--all"], ["unpause", "--all"], ["vacuum"], ["backup", "b.sql.gz"], ["audit"]):
        assert tenants.run(*command).code == 0
    printed = tenants.run("audit")
    assert (printed.code, printed.err) == (0, ""), printed
    *entries, head = map(json.loads, printed.out.splitlines())
    assert [(entry["actor"], entry["action"]) for entry in entries] == [
        *(("operator", action) for action in ("paused", "unpaused", "vacuumed", "backed_up", "exported")),
    ]
    assert entries[3]["data"] == {"file": "b.sql.gz"}
    (tmp_path / "audit.jsonl").write_text(printed.out)
    assert hostsvc(tmp_path, "verify", "audit.jsonl").code == 0
    assert head["head"] == 5


def test_audit_prints_the_log_of_an_organization(tenants: Tenants) -> None:
    tenants.insert_organization("Acme Inc")
    for expected in (["created"], ["created", "exported"]):
        entries = map(json.loads, tenants.run("audit", "Acme Inc").out.splitlines()[:-1])
        assert [entry["action"] for entry in entries] == expected


@pytest.mark.parametrize("arguments", [(), ("Acme", "--all")])
def test_pause_takes_one_organization_or_all(tenants: Tenants, arguments: tuple[str, ...]) -> None:
    refused = tenants.run("pause", *arguments)
    assert refused.code == 2
    assert "give an organization, or --all" in refused.err


def test_pause_refuses_ambiguous_name_and_lists_the_ids(tenants: Tenants) -> None:
    first, second = tenants.insert_organization("Acme"), tenants.insert_organization("Acme")

    line = refusal(tenants.run("pause", "Acme"))

    assert line == f"2 organizations have the name Acme; give one of the ids: {first}, {second}"
    assert tenants.paused() == []


@pytest.mark.parametrize("unknown", ["Nobody", "018f0000-0000-7000-8000-000000000000"])
def test_unpause_refuses_unknown_organization_with_one_line(tenants: Tenants, unknown: str) -> None:
    assert refusal(tenants.run("unpause", unknown)) == f"there is no organization {unknown}"


def test_publish_makes_an_adapter_public(tenants: Tenants) -> None:
    adapter_id = tenants.insert_adapter()
    for _ in range(2):
        done = tenants.run("adapters", "publish", str(adapter_id))
        expected = "Mail is public: every organization can see and attach it\n"
        assert (done.code, done.out, done.err) == (0, expected, ""), done
    assert tenants.rows(VISIBILITY) == [("public",)]
    by_operator = "SELECT data ->> 'action', data -> 'fields' FROM event WHERE actor = 'operator'"
    assert tenants.rows(by_operator) == [("changed", ["visibility"])]


def test_publish_refuses_unknown_adapter_with_one_line(tenants: Tenants) -> None:
    tenants.insert_adapter()
    unknown = str(new_id())
    assert refusal(tenants.run("adapters", "publish", unknown)) == f"there is no adapter {unknown}"
    assert tenants.rows(VISIBILITY) == [("private",)]
