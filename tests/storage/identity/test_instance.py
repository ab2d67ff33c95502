"""The secrets of the installation."""

import asyncio

import pytest

from storage.identity.instance import Instance
from storage.postgres.pool import Pool


async def test_secrets_are_generated_once_for_concurrent_reads(pool: Pool) -> None:
    instances = [Instance(pool) for _ in range(8)]

    secrets = await asyncio.gather(*(instance.token_secret() for instance in instances))
    tokens = await asyncio.gather(*(instance.operator_token() for instance in instances))

    assert len(set(secrets)) == 1
    assert len(set(tokens)) == 1
    assert secrets[0] != tokens[0]
    assert len(secrets[0]) >= 32
    assert await Instance(pool).token_secret() == secrets[0]


async def test_missing_row_of_the_table_instance_is_an_error(pool: Pool) -> None:
    await pool.execute("DELETE FROM instance")

    with pytest.raises(RuntimeError, match="the table instance has no row"):
        await Instance(pool).token_secret()
