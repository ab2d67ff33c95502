"""Errors that the user can correct: one line on stderr that names the cause, exit code 2, no traceback."""

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from tests.acceptance.process import PATIENCE_SECONDS, Launch, launch_fresh, spawn
from tests.acceptance.services import Services
from tests.hostsvc.cli.shell import reason_of

Sections = Mapping[str, Mapping[str, Any]]


async def refusal(directory: Path, sections: Sections, launch: Launch) -> str:
    """Start the service, which must refuse, and return the reason."""
    process = await spawn(directory, "refused", sections, launch)
    try:
        assert await process.exit_code(within=PATIENCE_SECONDS) == 2, process.log()
    finally:
        await process.close()
    return reason_of(process.log())


@pytest.mark.everyday
async def test_unknown_key_is_named_with_the_known_ones(directory: Path) -> None:
    line = await refusal(directory, {"server": {"prot": 9000}}, launch_fresh)
    assert "refused.toml: server.prot is unknown; known are host, port" in line


async def test_value_of_wrong_type_is_named_with_its_type(directory: Path, launch: Launch) -> None:
    line = await refusal(directory, {"runs": {"max_concurrent": "many"}}, launch)
    assert "runs.max_concurrent must be an integer, got 'many'" in line


async def test_unreachable_database_is_named_without_its_password(directory: Path, launch: Launch) -> None:
    url = "postgresql://somebody:hunter2@127.0.0.1:1/nothing"
    line = await refusal(directory, {"server": {"port": 0}, "database": {"url": url}}, launch)
    assert "127.0.0.1" in line
    assert line.endswith("start the database 127.0.0.1:1/nothing, or correct database.url")
    assert "hunter2" not in line


async def test_port_in_use_is_named(directory: Path, launch: Launch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = await refusal(directory, {"server": {"port": port}}, launch)
    assert f"port {port}" in line
    assert "is in use: stop the program that uses it, or set another server.port" in line
    assert not (directory / "data").exists()


@pytest.mark.parametrize("parent", ["a_file", "/proc"])
async def test_unusable_data_directory_is_named(directory: Path, parent: str, launch: Launch) -> None:
    (directory / "a_file").write_text("")  # not even root can create a directory in either
    data_dir = directory / parent / "postgres"
    line = await refusal(directory, {"server": {"port": 0}, "database": {"data_dir": str(data_dir)}}, launch)
    assert str(directory / parent) in line
    assert "set database.data_dir to a" in line


async def test_newer_schema_is_named(services: Services, database_url: str, launch: Launch) -> None:
    connection = psycopg2.connect(database_url)
    with connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO schema_migration VALUES (9999, '9999_future.sql', 'x')")
    connection.close()
    line = await refusal(services.directory, {"server": {"port": 0}, "database": services.database}, launch)
    assert "9999_future.sql" in line
