"""The audit log in the database: what triggers record, with whom, and that nobody changes it."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from storage.agents.templates import Templates
from storage.events.audit_chain import verify
from storage.events.audit_log import AuditLog, record_act
from storage.events.events import Events
from storage.events.model import INSTANCE
from storage.identity.instance import Instance
from storage.model import Organization
from storage.postgres.asker import ASKER, AUDITED_TABLES, Asker, act_as
from storage.postgres.pool import Pool
from supervisors.clock import SystemClock
from tests.postgres import TestServer, url_as
from tests.storage.events.log import connected, write
from tests.storage.factories import stored_organization, template

TRIGGERS = "SELECT tgrelid::regclass::text FROM pg_trigger WHERE tgname = 'Audit_row'"
LIST = "SELECT actor, address, data FROM event WHERE type = 'audit' ORDER BY id"
INSERT_FAMILY = """
INSERT INTO adapter (id, organization_id, name, created_at)
    VALUES (gen_random_uuid(), 'OWNER', 'Mail', now());
INSERT INTO template (id, organization_id, name, created_at)
    VALUES (gen_random_uuid(), 'OWNER', 'Clerk', now());
INSERT INTO adapter_config (id, template_id, adapter_id, config, created_at, updated_at)
    SELECT gen_random_uuid(), template.id, adapter.id, '{}', now(), now() FROM template, adapter;
INSERT INTO mcp_server (adapter_id, url, headers, refresh_at)
    SELECT id, 'https://a.example/', '{}', now() FROM adapter;
INSERT INTO tool (id, adapter_id, name, is_enforced, created_at)
    SELECT gen_random_uuid(), id, 'tool_' || n, false, now() FROM adapter, generate_series(1, 2) AS n;
INSERT INTO webhook
    (id, organization_id, url, description, types, tag, is_active, created_at, updated_at, position)
    VALUES (gen_random_uuid(), 'OWNER', 'https://a.example/', '', '{*}', '', true, now(), now(), 0);
INSERT INTO webhook_secret (id, webhook_id, value) SELECT gen_random_uuid(), id, 'x' FROM webhook
"""
RENAME = "UPDATE template SET name = 'Boss'"


@pytest.fixture
async def owner(pool: Pool) -> Organization:
    return await stored_organization(pool)


@pytest.fixture
async def psql(database_url: str) -> AsyncIterator[Any]:
    async with connected(database_url) as connection:
        yield connection


async def last(pool: Pool) -> tuple[str, str, Any]:
    *_, row = await pool.fetch(LIST)
    return row["actor"], row["address"], row["data"]


@contextmanager
def asking(actor: str, address: str) -> Iterator[None]:
    token = ASKER.set(Asker(actor, lambda: address))
    yield
    ASKER.reset(token)


async def chain(pool: Pool) -> None:
    await AuditLog(pool).chain(await Events(pool).get_last_id())


async def test_statements_are_told_exactly_of_tables_with_triggers(pool: Pool) -> None:
    rows = await pool.fetch(TRIGGERS)
    assert sorted(row["tgrelid"] for row in rows) == sorted(AUDITED_TABLES.split("|"))


async def test_change_has_its_asker_and_no_values(pool: Pool, owner: Organization) -> None:
    desk = template(owner.id, tool_call_secret="swordfish")
    with asking("key:1", "192.0.2.7"):
        await Templates(pool).insert(desk)
        await pool.execute("UPDATE template SET system_prompt = 'xyzzy', max_turns = 2")
    fields = ["max_turns", "system_prompt"]
    expected = {"resource": "template", "action": "changed", "name": desk.name, "fields": fields}
    assert await last(pool) == ("key:1", "192.0.2.7", expected)
    text = str([dict(row) for row in await pool.fetch(LIST)])
    assert "swordfish" not in text
    assert "xyzzy" not in text


async def test_change_without_effect_leaves_no_entry(pool: Pool, owner: Organization) -> None:
    await Templates(pool).insert(template(owner.id))
    count = len(await pool.fetch(LIST))
    await pool.execute("UPDATE template SET name = name, prompt_version = prompt_version + 1")
    assert len(await pool.fetch(LIST)) == count


async def test_asker_is_forgotten_after_its_block(pool: Pool, owner: Organization) -> None:
    await Templates(pool).insert(template(owner.id))
    with asking("key:1", "192.0.2.7"):
        act_as("user:2")
        await pool.execute(RENAME)
    assert (await last(pool))[:2] == ("user:2", "192.0.2.7")
    await pool.execute("UPDATE template SET name = 'Clerk'")
    assert (await last(pool))[:2] == ("", "")


async def test_rolled_back_change_leaves_no_entry(pool: Pool, owner: Organization) -> None:
    await Templates(pool).insert(template(owner.id))
    count = len(await pool.fetch(LIST))
    async with pool.spare() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(RENAME)
        await transaction.rollback()
    assert len(await pool.fetch(LIST)) == count


async def test_other_programs_are_recorded_as_such(
    pool: Pool, postgres_server: TestServer, database_url: str, owner: Organization
) -> None:
    with postgres_server.role() as role:
        await pool.execute(f"GRANT SELECT, UPDATE ON organization TO {role}")
        async with connected(url_as(database_url, role)) as psql:
            await psql.execute("SET hostsvc.actor = 'key:1'; SET hostsvc.origin = 'service'")
            await psql.execute("UPDATE organization SET name = 'Theirs'")
        actor, _, data = await last(pool)
    assert (actor, data["name"], data["fields"]) == ("program", "Theirs", ["name"])


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit_entry SET actor = 'nobody'",
        "DELETE FROM audit_entry",
        "TRUNCATE audit_entry",
        "UPDATE event SET actor = 'nobody'",
        "TRUNCATE event",
        "DELETE FROM event",
        "TRUNCATE template CASCADE",
    ],
)
async def test_nobody_changes_what_was_recorded(
    pool: Pool, psql: Any, owner: Organization, statement: str
) -> None:
    await chain(pool)
    await psql.execute("UPDATE organization SET name = 'Theirs'")
    with pytest.raises((asyncpg.InsufficientPrivilegeError, asyncpg.FeatureNotSupportedError)):
        await psql.execute(statement)


@pytest.mark.parametrize(
    ("statement", "is_refused"),
    [
        ("DELETE FROM audit_entry WHERE number = 1", False),
        ("DELETE FROM audit_entry WHERE number <= 2", False),
        ("DELETE FROM audit_entry WHERE number = 2", True),
        ("DELETE FROM audit_entry WHERE number <= 3", True),  # of today
        ("DELETE FROM audit_entry", True),
    ],
)
async def test_only_oldest_entries_can_be_deleted(
    pool: Pool, psql: Any, statement: str, is_refused: bool
) -> None:
    now = SystemClock().now()
    for days in (9, 8, 0, 0):
        await write(pool, "audit", at=now - timedelta(days), data='{"resource": "a", "action": "b"}')
    await chain(pool)
    with pytest.raises(asyncpg.InsufficientPrivilegeError) if is_refused else nullcontext():
        await psql.execute(statement)


async def test_chain_goes_on_where_it_was(pool: Pool, owner: Organization) -> None:
    log = AuditLog(pool)
    await chain(pool)
    before = await log.get_head(owner.id)
    assert before is not None
    await Templates(pool).insert(template(owner.id))
    await chain(pool)
    await chain(pool)
    after = await log.get_head(owner.id)
    assert after is not None
    assert (after.number, after.previous) == (before.number + 1, before.digest)


@pytest.mark.parametrize(
    ("parent", "gone"),
    [
        ("adapter", {"tool": 2, "mcp_server": 1, "adapter_config": 1}),
        ("template", {"adapter_config": 1}),
        ("webhook", {"webhook_secret": 1}),
    ],
)
async def test_deletion_tells_what_goes_with_it(
    pool: Pool, psql: Any, owner: Organization, parent: str, gone: dict[str, int]
) -> None:
    await psql.execute(INSERT_FAMILY.replace("OWNER", str(owner.id)))
    with asking("user:2", "192.0.2.7"):
        await pool.execute(f"DELETE FROM {parent}")  # noqa: S608
    entries = [row for row in await pool.fetch(LIST) if row["data"]["action"] == "deleted"]
    [entry] = [row for row in entries if row["data"]["resource"] == parent]
    assert entry["actor"] == "user:2"
    assert entry["data"]["deleted_with"] == gone


@pytest.mark.usefixtures("owner")
async def test_deleted_account_is_an_entry_of_its_organizations(pool: Pool) -> None:
    await pool.execute("DELETE FROM user_account")
    deleted = [row["data"] for row in await pool.fetch(LIST) if row["data"]["action"] == "deleted"]
    assert {entry["resource"] for entry in deleted} == {"account", "membership"}
    assert [entry.get("deleted_with") for entry in deleted if "email" in entry] == [{"membership": 1}]


async def test_acts_of_the_operator_are_a_chain_of_their_own(pool: Pool, owner: Organization) -> None:
    log, instance = AuditLog(pool), Instance(pool)
    for because in ("a test wants it", "another one", "", ""):
        await instance.set_paused(SystemClock().now(), because)
    await record_act(pool, "backed_up", SystemClock().now(), file="b.sql.gz")
    await chain(pool)
    text = b"".join([piece async for piece in log.export(INSTANCE)]).decode()
    assert verify(text.splitlines())[:2] == (1, 3)
    acts = [(each["actor"], each["action"], each["data"]) for each in map(json.loads, text.splitlines()[:-1])]
    assert acts == [
        ("operator", "paused", {"because": "a test wants it"}),
        ("operator", "unpaused", {"because": "a test wants it"}),
        ("operator", "backed_up", {"file": "b.sql.gz"}),
    ]
