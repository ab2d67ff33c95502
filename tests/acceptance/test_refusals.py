"""What a user can mend stops the start: one line on stderr that names it, exit code 2, no traceback."""

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from tests.acceptance.process import PATIENCE_SECONDS, spawn
from tests.acceptance.services import Services

Sections = Mapping[str, Mapping[str, Any]]


async def refusal(directory: Path, sections: Sections) -> str:
    """The one line that a refused start prints."""
    process = await spawn(directory, "refused", sections)
    try:
        assert await process.exit_code(within=PATIENCE_SECONDS) == 2, process.log()
    finally:
        await process.close()
    [line] = process.log().splitlines()
    assert line.startswith("hostsvc: "), line
    return line.removeprefix("hostsvc: ")


async def test_an_unknown_key_is_named_with_those_there_are(directory: Path) -> None:
    line = await refusal(directory, {"server": {"prot": 9000}})
    assert "refused.toml: server.prot: there is no such key; [server] has host, port" in line


async def test_a_value_of_the_wrong_kind_is_named_with_what_it_takes(directory: Path) -> None:
    line = await refusal(directory, {"runs": {"max_concurrent": "many"}})
    assert "runs.max_concurrent: takes an integer, not 'many'" in line


async def test_an_unreachable_database_is_named_without_its_password(directory: Path) -> None:
    url = "postgresql://somebody:hunter2@127.0.0.1:1/nothing"
    line = await refusal(directory, {"server": {"port": 0}, "database": {"url": url}})
    assert "127.0.0.1" in line
    assert line.endswith("start it, or correct database.url")
    assert "hunter2" not in line


async def test_a_port_in_use_is_named(directory: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = await refusal(directory, {"server": {"port": port}})
    assert f"port {port}" in line
    assert "is in use: stop what uses it, or set another server.port" in line
    assert not (directory / "data").exists()


@pytest.mark.parametrize("below", ["a_file", "/proc"])
async def test_a_data_directory_that_cannot_be_made_is_named(directory: Path, below: str) -> None:
    (directory / "a_file").write_text("")  # below neither may even root make a directory
    data_dir = directory / below / "postgres"
    line = await refusal(directory, {"server": {"port": 0}, "database": {"data_dir": str(data_dir)}})
    assert str(data_dir) in line
    assert "point database.data_dir at a directory that this user may write" in line


async def test_a_newer_schema_is_named(services: Services, database_url: str) -> None:
    connection = psycopg2.connect(database_url)
    with connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO schema_migration VALUES (9999, '9999_future.sql', 'x')")
    connection.close()
    line = await refusal(services.directory, {"server": {"port": 0}, "database": services.database})
    assert "9999_future.sql" in line
