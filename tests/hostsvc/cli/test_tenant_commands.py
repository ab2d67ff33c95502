"""`hostsvc accounts`, `adapters`, `pause` and `unpause`: what they print, and what they store."""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg2
import pytest

from storage.ids import new_id
from tests.hostsvc.cli.shell import Finished, hostsvc, refusal

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


class Shell:
    """Runs commands on one database, and reads and writes its rows."""

    def __init__(self, directory: Path, url: str) -> None:
        self.directory = directory
        self.url = url
        self.connection = psycopg2.connect(url)
        self.connection.autocommit = True

    def run(self, *arguments: str) -> Finished:
        return hostsvc(self.directory, *arguments, HOSTSVC__DATABASE__URL=self.url)

    def execute(self, sql: str, *values: str) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute(sql, values)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

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
def shell(tmp_path: Path, database_url: str) -> Iterator[Shell]:
    shell = Shell(tmp_path, database_url)
    yield shell
    shell.connection.close()


def test_reset_password_prints_a_code_and_stores_its_hash(shell: Shell) -> None:
    shell.execute(INSERT_USER, "ann@example.com")

    done = shell.run("accounts", "reset-password", "Ann@EXAMPLE.com")

    assert (done.code, done.err) == (0, ""), done
    [(stored, is_within_an_hour)] = shell.rows(RESET_CODE)
    assert bytes(stored) == sha256(done.out.strip().encode()).digest()
    assert is_within_an_hour


def test_reset_password_refuses_unknown_user(shell: Shell) -> None:
    line = refusal(shell.run("accounts", "reset-password", "bob@example.com"))
    assert line == "there is no user with the e-mail address bob@example.com"


def test_pause_and_unpause_accept_id_or_name(shell: Shell) -> None:
    organization_id = str(shell.insert_organization("Acme Inc"))
    shell.insert_organization("Other")

    paused = shell.run("pause", organization_id)
    expected = "Acme Inc is paused; a running service follows within 5 s\n"
    assert (paused.code, paused.out, paused.err) == (0, expected, ""), paused
    assert shell.paused() == ["Acme Inc"]

    unpaused = shell.run("unpause", "Acme Inc")
    expected = "Acme Inc is no longer paused; a running service follows within 5 s\n"
    assert (unpaused.code, unpaused.out, unpaused.err) == (0, expected, ""), unpaused
    assert shell.paused() == []
    types_by_operator = [("organization.paused", "operator"), ("organization.unpaused", "operator")]
    assert shell.rows("SELECT type, actor FROM event ORDER BY id") == types_by_operator


def test_pause_refuses_ambiguous_name_and_lists_the_ids(shell: Shell) -> None:
    first, second = shell.insert_organization("Acme"), shell.insert_organization("Acme")

    line = refusal(shell.run("pause", "Acme"))

    assert line == f"2 organizations have the name Acme; give one of the ids: {first}, {second}"
    assert shell.paused() == []


@pytest.mark.parametrize("unknown", ["Nobody", "018f0000-0000-7000-8000-000000000000"])
def test_unpause_refuses_unknown_organization_with_one_line(shell: Shell, unknown: str) -> None:
    assert refusal(shell.run("unpause", unknown)) == f"there is no organization {unknown}"


def test_publish_makes_an_adapter_public(shell: Shell) -> None:
    adapter_id = shell.insert_adapter()
    for _ in range(2):
        done = shell.run("adapters", "publish", str(adapter_id))
        expected = "Mail is public: every organization can see and attach it\n"
        assert (done.code, done.out, done.err) == (0, expected, ""), done
    assert shell.rows(VISIBILITY) == [("public",)]


def test_publish_refuses_unknown_adapter_with_one_line(shell: Shell) -> None:
    shell.insert_adapter()
    unknown = str(new_id())
    assert refusal(shell.run("adapters", "publish", unknown)) == f"there is no adapter {unknown}"
    assert shell.rows(VISIBILITY) == [("private",)]


def test_publish_refuses_older_schema_with_one_line(tmp_path: Path, empty_database_url: str) -> None:
    line = refusal(
        hostsvc(tmp_path, "adapters", "publish", str(new_id()), HOSTSVC__DATABASE__URL=empty_database_url)
    )
    assert line == "the database has an older schema: run hostsvc migrate first"
