"""`hostsvc accounts`, `pause` and `unpause`, as a shell sees them."""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg2
import pytest

from storage.ids import new_id
from tests.hostsvc.cli.test_commands import Finished, hostsvc, refusal

INSERT_ORGANIZATION = "INSERT INTO organization (id, name, created_at) VALUES (%s, %s, now())"

INSERT_USER = """
INSERT INTO user_account (id, email, password_hash, created_at) VALUES (gen_random_uuid(), %s, '!', now())
"""

CODE = "SELECT reset_code_hash, reset_code_expires_at - now() <= '1 hour' FROM user_account"


class Shell:
    """Runs commands on one database, and looks into it."""

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

    def organization(self, name: str) -> UUID:
        organization_id = new_id()
        self.execute(INSERT_ORGANIZATION, str(organization_id), name)
        return organization_id

    def paused(self) -> list[str]:
        return [name for (name,) in self.rows("SELECT name FROM organization WHERE paused ORDER BY name")]


@pytest.fixture
def shell(tmp_path: Path, database_url: str) -> Iterator[Shell]:
    shell = Shell(tmp_path, database_url)
    yield shell
    shell.connection.close()


def test_a_reset_code_is_printed_and_only_its_hash_is_kept_for_an_hour(shell: Shell) -> None:
    shell.execute(INSERT_USER, "ann@example.com")

    done = shell.run("accounts", "reset-password", "Ann@EXAMPLE.com")

    assert (done.code, done.err) == (0, ""), done
    [(kept, is_within_an_hour)] = shell.rows(CODE)
    assert bytes(kept) == sha256(done.out.strip().encode()).digest()
    assert is_within_an_hour


def test_who_is_unknown_gets_no_reset_code(shell: Shell) -> None:
    line = refusal(shell.run("accounts", "reset-password", "bob@example.com"))
    assert line == "there is no user with the e-mail address bob@example.com"


def test_an_organization_is_paused_and_unpaused_by_its_id_or_name(shell: Shell) -> None:
    organization_id = str(shell.organization("Acme Inc"))
    shell.organization("Other")

    paused = shell.run("pause", organization_id)
    said = "Acme Inc is paused; a service that is up goes by it within 5 s\n"
    assert (paused.code, paused.out, paused.err) == (0, said, ""), paused
    assert shell.paused() == ["Acme Inc"]

    unpaused = shell.run("unpause", "Acme Inc")
    said = "Acme Inc is not paused any more; a service that is up goes by it within 5 s\n"
    assert (unpaused.code, unpaused.out, unpaused.err) == (0, said, ""), unpaused
    assert shell.paused() == []


def test_a_name_that_several_have_is_refused_with_their_ids(shell: Shell) -> None:
    first, second = shell.organization("Acme"), shell.organization("Acme")

    line = refusal(shell.run("pause", "Acme"))

    assert line == f"2 organizations are called Acme; give the id of one: {first}, {second}"
    assert shell.paused() == []


@pytest.mark.parametrize("wanted", ["Nobody", "018f0000-0000-7000-8000-000000000000"])
def test_an_organization_that_is_not_there_is_one_line(shell: Shell, wanted: str) -> None:
    assert refusal(shell.run("unpause", wanted)) == f"there is no organization {wanted}"
