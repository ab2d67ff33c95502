"""The secrets of the installation."""

import asyncio

import pytest

from storage.encryption import KEY_BYTES, SecretCipher
from storage.errors import DatabaseReadOnly, SecretUnreadable
from storage.identity.instance import LIMIT_MEMORY, PROBE_DISK, Instance
from storage.postgres.pool import DatabaseSettings, Pool, open_pool
from storage.service_facts import ServiceFacts
from storage.storage import Storage
from supervisors.clock import SystemClock
from tests.storage.factories import HOUR, NOW, parked_call, schedule, stored_agent

INSERT_DELIVERY = """
INSERT INTO webhook_delivery (id, organization_id, url, payload, created_at, next_attempt_at)
VALUES (gen_random_uuid(), $1, 'https://example.org', '{}', $2, $2)
"""

pytestmark = pytest.mark.own_database


async def test_secrets_are_generated_once_for_concurrent_reads(pool: Pool) -> None:
    instances = [Instance(pool) for _ in range(8)]

    secrets = await asyncio.gather(*(instance.token_secret() for instance in instances))
    tokens = await asyncio.gather(*(instance.operator_token() for instance in instances))

    assert len(set(secrets)) == 1
    assert len(set(tokens)) == 1
    assert secrets[0] != tokens[0]
    assert len(secrets[0]) >= 32
    assert await Instance(pool).token_secret() == secrets[0]


async def test_paused_instance_has_nothing_due(pool: Pool) -> None:
    storage = Storage(pool, on_commit=lambda _: None, sleep=SystemClock().sleep)
    scout = await stored_agent(pool)
    await storage.schedules.insert(schedule(scout))
    await storage.parked_calls.insert(parked_call(scout))
    await pool.execute(INSERT_DELIVERY, scout.organization_id, NOW)

    async def due() -> list[object]:
        later = NOW + 25 * HOUR
        schedules, calls = storage.schedules, storage.parked_calls
        return [
            len(await schedules.list_due(later, [], 5)),
            (await storage.due.get_next())["schedules"] is not None,
            len(await calls.list_due(later, [], [], 5)),
            (await storage.due.get_next())["parked_calls"] is not None,
            len(await storage.outbox.list_due(later, limit_per_receiver=5, limit=5)),
        ]

    assert await due() == [1, True, 1, True, 1]
    await Instance(pool).set_paused(NOW, "a test wants it")
    assert await due() == [0, False, 0, False, 0]
    await Instance(pool).set_paused(NOW + HOUR, "")
    assert await due() == [1, True, 1, True, 1]


async def test_first_pause_counts_until_it_ends(pool: Pool) -> None:
    facts = ServiceFacts(pool)
    await Instance(pool).set_paused(NOW, "it was restored")
    await Instance(pool).set_paused(NOW + HOUR, "its operator has paused it")
    await facts.refresh(NOW)
    assert facts.last
    assert (facts.last.paused_at, facts.last.paused_because) == (NOW, "it was restored")


async def test_missing_row_of_the_table_instance_is_an_error(pool: Pool) -> None:
    await pool.execute("DELETE FROM instance")

    with pytest.raises(RuntimeError, match="the table instance has no row"):
        await Instance(pool).token_secret()


async def test_probe_commits_a_write_even_if_the_row_is_locked(pool: Pool) -> None:
    latest = "SELECT xmin::text FROM instance"
    before = await pool.fetchval(latest)
    await Instance(pool).probe_write()
    probed = await pool.fetchval(latest)
    assert probed != before
    async with pool.transaction() as connection:
        await connection.execute("UPDATE instance SET epoch = epoch")
        await Instance(pool).probe_write()


async def test_probe_writes_to_the_disk(pool: Pool) -> None:
    async with pool.transaction() as connection:
        await connection.execute(LIMIT_MEMORY)
        plan = "\n".join(str(row[0]) for row in await connection.fetch(f"EXPLAIN ANALYZE {PROBE_DISK}"))
    assert "Sort Method: external merge  Disk:" in plan


async def test_probe_of_a_read_only_session_fails(database_url: str) -> None:
    async with open_pool(DatabaseSettings(url=database_url, pool_size=1), node=None) as pool:
        async with pool.spare() as connection:  # the one that the probe uses
            await connection.execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
        with pytest.raises(DatabaseReadOnly):
            await Instance(pool).probe_write()
        await Instance(pool).probe_write()


async def test_unreadable_token_secret_is_refused_and_kept(pool: Pool) -> None:
    secret = await Instance(pool, SecretCipher([b"a" * KEY_BYTES])).token_secret()
    stored = await pool.fetchval("SELECT token_secret FROM instance")
    assert secret not in stored

    for cipher in (SecretCipher(), SecretCipher([b"b" * KEY_BYTES])):
        with pytest.raises(SecretUnreadable, match=r"instance\.token_secret cannot be decrypted"):
            await Instance(pool, cipher).token_secret()
    assert await pool.fetchval("SELECT token_secret FROM instance") == stored


async def test_token_secret_copied_to_operator_token_is_refused(pool: Pool) -> None:
    instance = Instance(pool, SecretCipher([b"a" * KEY_BYTES]))
    await instance.token_secret()
    await pool.execute("UPDATE instance SET operator_token = token_secret")
    with pytest.raises(SecretUnreadable, match=r"instance\.operator_token cannot be decrypted"):
        await instance.operator_token()
