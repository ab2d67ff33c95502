"""The cipher of this database: which keys it takes, and what it tells the operator."""

import pytest

from hostsvc.secret_cipher import (
    IN_CLEAR,
    NOT_ROTATED,
    encryption_notice,
    open_cipher,
    open_cipher_of_service,
)
from storage.encryption import key_id, parse_key
from storage.errors import DatabaseRefused
from storage.identity.encryption_keys import EncryptionKeys
from storage.postgres.pool import Pool
from tests.storage.factories import NOW, stored_organization

FIRST, SECOND = "A" * 43, "B" * 42 + "A"
FIRST_ID, SECOND_ID = key_id(parse_key(FIRST)), key_id(parse_key(SECOND))


async def test_database_without_keys_gets_notice_how_to_make_one(pool: Pool) -> None:
    cipher = await open_cipher_of_service([], pool, NOW)
    assert await encryption_notice(cipher, pool) == IN_CLEAR
    assert "token_urlsafe(32)" in IN_CLEAR


async def test_notice_asks_for_rotation_until_it_is_done(pool: Pool) -> None:
    await stored_organization(pool)
    cipher = await open_cipher_of_service([FIRST], pool, NOW)
    assert await encryption_notice(cipher, pool) == NOT_ROTATED
    await EncryptionKeys(pool).retire_others(FIRST_ID, NOW)
    assert await encryption_notice(cipher, pool) == ""


async def test_database_used_with_key_is_refused_without_it(pool: Pool) -> None:
    await open_cipher_of_service([FIRST], pool, NOW)
    for keys in ([], [SECOND]):
        with pytest.raises(DatabaseRefused, match=f"with the key {FIRST_ID}, which is not in"):
            await open_cipher_of_service(keys, pool, NOW)
    assert (await open_cipher([SECOND, FIRST], pool)).key_ids == (SECOND_ID, FIRST_ID)
    assert await EncryptionKeys(pool).list_in_use() == [FIRST_ID]
