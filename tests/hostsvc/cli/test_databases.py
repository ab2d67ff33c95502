"""The database of a command: safe, of this schema, and with an operator token."""

from pathlib import Path

import pytest

from hostsvc.cli.databases import open_current_database, operator_token
from hostsvc.config import Config, DatabaseChoice, OperatorSettings
from hostsvc.service import open_database
from storage.errors import DatabaseRefused
from storage.postgres.migrations import check


async def test_open_database_yields_the_configured_url(database_url: str) -> None:
    async with open_database(Config(database=DatabaseChoice(url=database_url))) as url:
        assert url == database_url


async def test_open_database_starts_the_embedded_one_if_url_is_blank(data_dir: Path) -> None:
    config = Config(database=DatabaseChoice(data_dir=data_dir))
    first = await operator_token(config)
    assert await operator_token(config) == first, "the token is stored"
    async with open_current_database(config) as pool:
        assert await pool.fetchval("SELECT operator_token FROM instance") == first


async def test_open_current_database_refuses_older_schema(empty_database_url: str) -> None:
    with pytest.raises(DatabaseRefused, match="run hostsvc migrate first"):
        async with open_current_database(Config(database=DatabaseChoice(url=empty_database_url))):
            pass


async def test_operator_token_migrates_only_an_empty_database(empty_database_url: str) -> None:
    await operator_token(Config(database=DatabaseChoice(url=empty_database_url)))
    assert await check(empty_database_url) == []


async def test_configured_operator_token_needs_no_database() -> None:
    config = Config(
        database=DatabaseChoice(url="postgresql://127.0.0.1:1/nothing"), operator=OperatorSettings("chosen")
    )
    assert await operator_token(config) == "chosen"
