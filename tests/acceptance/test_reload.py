"""SIGHUP: a running service has new limits, keys and levels; what is invalid is refused."""

import os
import signal
from pathlib import Path

import aiohttp
import pytest

from tests.acceptance.client import eventually
from tests.acceptance.process import MODULE, ServiceProcess, launched_by
from tests.acceptance.services import Services

TABLE = "anonymous_requests_per_minute"


async def logged(service: ServiceProcess, words: str, times: int = 1) -> None:
    async def look() -> bool | None:
        return service.log().count(words) >= times or None

    await eventually(look, f"{words} in the log")


def change(directory: Path, old: str, new: str) -> None:
    file = directory / "service-1.toml"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))


@pytest.mark.parametrize("workers", [1, 2])
async def test_new_limits_hold_for_the_next_request(
    services: Services, session: aiohttp.ClientSession, directory: Path, workers: int
) -> None:
    service = await services.start(
        limits={TABLE: 600}, log={"level": "info"}, node={"workers": workers}, server={"port": 0}
    )
    change(directory, f"{TABLE} = 600", f"{TABLE} = 0\nbody_bytes = 2048")
    service.send_signal(signal.SIGHUP)

    await logged(service, '"changed":["limits"],"waiting_for_restart":["limits"]')
    await logged(service, '"event":"configuration read again"', workers)
    async with session.post(f"{service.url}/api/organizations/auth/login/", json={}) as response:
        assert "RateLimit-Policy" not in response.headers
    change(directory, f"{TABLE} = 0", f"{TABLE} = -1")
    service.send_signal(signal.SIGHUP)
    await logged(service, '"event":"configuration refused"')
    assert f"limits.{TABLE} must be between 0 and" in service.log()
    async with session.post(f"{service.url}/api/organizations/auth/login/", json={}) as response:
        assert response.status == 400, "it serves as before"
    service.terminate()
    assert await service.exit_code() == 0


async def test_new_level_of_the_log_holds_at_once(services: Services, directory: Path) -> None:
    service = await services.start(log={"level": "info"})
    change(directory, 'level = "info"', 'level = "warning"')
    service.send_signal(signal.SIGHUP)
    await logged(service, '"event":"configuration read again"')
    service.terminate()
    assert await service.exit_code() == 0
    assert '"event":"end requested"' not in service.log()


async def test_new_key_from_a_file_is_sent_to_the_provider(
    directory: Path, database_url: str, session: aiohttp.ClientSession
) -> None:
    secrets = directory / "secrets"
    secrets.mkdir()
    (secrets / "hostsvc_EXAMPLE_KEY").write_text("first-key\n")
    (secrets / "HOSTSVC__DATABASE__URL").write_text(database_url)
    launch = launched_by(*MODULE, CREDENTIALS_DIRECTORY=str(secrets))
    services = Services(directory, {}, launch)
    provider = {"base_url": "http://127.0.0.1:1", "api_key_env": "EXAMPLE_KEY"}
    service = await services.start(**{"models.example": provider})
    os.replace(_written(secrets / "new", "second-key"), secrets / "hostsvc_EXAMPLE_KEY")
    service.send_signal(signal.SIGHUP)
    await logged(service, '"changed":["model_keys"]')
    assert "second-key" not in service.log()
    await services.close()


def _written(file: Path, text: str) -> Path:
    file.write_text(text)
    return file
