"""The configured database: opened, waited for, with an operator token, and with the keys of its secrets."""

import asyncio
import re
from dataclasses import replace
from pathlib import Path
from socket import create_server

import pytest
from structlog.testing import capture_logs

from hostsvc.config import Config, DatabaseChoice
from hostsvc.database import (
    IN_CLEAR,
    NOT_ROTATED,
    PAUSE_SECONDS,
    encryption_notice,
    open_cipher,
    open_cipher_of_service,
    open_current_database,
    open_database,
    operator_token,
    wait_for_database,
)
from hostsvc.process_end import EndRequest
from storage.agents.secrets import Secret
from storage.encryption import key_id, parse_key
from storage.errors import DatabaseRefused, DatabaseUnavailable
from storage.identity.instance import EncryptionKeys
from storage.ids import new_id
from storage.postgres.migrations import migrate
from storage.postgres.pool import Pool
from storage.storage import Storage
from supervisors.clock import SystemClock
from tests.paths import ROOT
from tests.storage.factories import NOW, adapter, stored_organization, template
from tests.storage.toolbox.test_adapter_configs import adapter_config
from tests.supervisors.held_clock import HeldClock

FIRST, SECOND = "A" * 43, "B" * 42 + "A"
FIRST_ID, SECOND_ID = key_id(parse_key(FIRST)), key_id(parse_key(SECOND))


async def test_open_database_starts_the_embedded_one_if_url_is_blank(data_dir: Path) -> None:
    config = Config(database=DatabaseChoice(data_dir=data_dir))
    async with open_database(config, may_create=True):
        pass
    with pytest.raises(DatabaseRefused, match="the database is empty"):
        await operator_token(config)
    async with open_database(config) as url:
        await migrate(url)
    first = await operator_token(config)
    assert await operator_token(config) == first, "the token is stored"
    async with open_current_database(config) as pool:
        assert await pool.fetchval("SELECT operator_token FROM instance") == first


async def test_open_current_database_refuses_an_empty_one(empty_database_url: str) -> None:
    with pytest.raises(DatabaseRefused, match="set it up with hostsvc migrate"):
        async with open_current_database(Config(database=DatabaseChoice(url=empty_database_url))):
            pass


class HurriedClock(HeldClock):
    """Lets the time that somebody waits for pass at once."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)
        self.advance(seconds)


@pytest.fixture
def nobody() -> DatabaseChoice:
    """Return a database at an address where nobody listens."""
    with create_server(("127.0.0.1", 0)) as unused:
        return DatabaseChoice(url=f"postgresql://me:hunter2@127.0.0.1:{unused.getsockname()[1]}/agents")


async def test_present_database_is_not_waited_for(database_url: str) -> None:
    with capture_logs() as logged:
        assert await wait_for_database(DatabaseChoice(url=database_url), 10, EndRequest(), HeldClock())
    assert logged == []


async def test_wait_says_once_a_minute_what_it_waits_for(nobody: DatabaseChoice) -> None:
    address = nobody.url.partition("@")[2].partition("/")[0]
    with capture_logs() as logged, pytest.raises(DatabaseUnavailable) as raised:
        await wait_for_database(nobody, 150, EndRequest(), HurriedClock())
    assert str(raised.value) == f"connection refused by {address}, after a wait of 150 s"
    assert [line["waited_seconds"] for line in logged] == [0, 60, 120]
    assert {line["event"] for line in logged} == {"waiting for the database"}
    assert logged[0]["database"] == f"the database {address}/agents"
    assert logged[0]["reason"] == f"connection refused by {address}"


async def test_wait_lasts_as_long_as_asked(nobody: DatabaseChoice) -> None:
    clock = HurriedClock()
    began_at = clock.monotonic()
    with pytest.raises(DatabaseUnavailable):
        await wait_for_database(nobody, PAUSE_SECONDS / 2, EndRequest(), clock)
    assert clock.monotonic() == pytest.approx(began_at + PAUSE_SECONDS / 2)


async def test_request_to_end_ends_the_wait(nobody: DatabaseChoice) -> None:
    end = EndRequest()
    waiting = asyncio.create_task(wait_for_database(nobody, 3600, end, SystemClock()))
    end.requested.set()
    assert not await waiting


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
