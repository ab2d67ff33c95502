"""The cipher of this database: which keys it takes, and what it tells the operator."""

import re
from dataclasses import replace

import pytest

from hostsvc.secret_cipher import (
    IN_CLEAR,
    NOT_ROTATED,
    encryption_notice,
    open_cipher,
    open_cipher_of_service,
)
from storage.agents.secrets import Secret
from storage.encryption import key_id, parse_key
from storage.errors import DatabaseRefused
from storage.identity.encryption_keys import EncryptionKeys
from storage.ids import new_id
from storage.postgres.pool import Pool
from storage.storage import Storage
from supervisors.clock import SystemClock
from tests.paths import ROOT
from tests.storage.factories import NOW, adapter, stored_organization, template
from tests.storage.toolbox.test_adapter_configs import adapter_config

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
    await EncryptionKeys(pool).retire(FIRST_ID, [], NOW)
    assert await encryption_notice(cipher, pool) == ""


async def test_database_used_with_key_is_refused_without_it(pool: Pool) -> None:
    await open_cipher_of_service([FIRST], pool, NOW)
    for keys in ([], [SECOND]):
        with pytest.raises(DatabaseRefused, match=f"with the key {FIRST_ID}, which is not in"):
            await open_cipher_of_service(keys, pool, NOW)
    assert (await open_cipher([SECOND, FIRST], pool)).key_ids == (SECOND_ID, FIRST_ID)
    assert await EncryptionKeys(pool).list_in_use() == [FIRST_ID]


async def test_documented_statements_forget_a_lost_key(pool: Pool) -> None:
    cipher = await open_cipher_of_service([FIRST], pool, NOW)
    storage = Storage(pool, on_commit=lambda _: None, sleep=SystemClock().sleep, cipher=cipher)
    lost = await storage.instance.token_secret(), await storage.instance.operator_token()
    desk = template((await stored_organization(pool)).id, tool_call_secret="whsec_1")
    await storage.templates.insert(desk)
    weather = adapter(desk.organization_id)
    await storage.adapters.insert(weather)
    await storage.adapter_configs.insert(adapter_config(desk, weather))
    await storage.secrets.insert(Secret(new_id(), desk.organization_id, None, "MODEL_KEY", NOW, NOW), "sk-1")

    [statements] = re.findall(r"```sql\n(.*?)```", (ROOT / "docs" / "encryption.md").read_text(), re.DOTALL)
    await pool.execute(statements.replace("5f1c02ab", FIRST_ID))

    cipher = await open_cipher_of_service([SECOND], pool, NOW)
    storage = Storage(pool, on_commit=lambda _: None, sleep=SystemClock().sleep, cipher=cipher)
    assert await storage.templates.get(desk.id) == replace(desk, tool_call_secret="")
    renewed = await storage.instance.token_secret(), await storage.instance.operator_token()
    assert len({*lost, *renewed}) == 4
    assert await pool.fetchval("SELECT count(*) FROM adapter_config") == 0
    assert await pool.fetchval("SELECT count(*) FROM secret") == 0
