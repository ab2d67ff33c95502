"""From a leader and a standby of 0.2.0 to a node, under load: nothing is lost, and never do both act."""

import asyncio
import io
import subprocess
import tarfile
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest

from tests.acceptance.client import eventually, sign_up
from tests.acceptance.log_lines import line_of
from tests.acceptance.process import Launch, ServiceProcess, launched_by
from tests.acceptance.services import Services
from tests.crash.ground import Ground
from tests.crash.load import Load
from tests.crash.recording import all_is_kept
from tests.crash.rolling import measure_rolling_upgrade
from tests.paths import ROOT

pytestmark = pytest.mark.long

OLD_RELEASE = "0b3c0d54"  # the last commit of 0.2.0 with a leader
STANDING_BY = "hostsvc: standing by on "
WAITING = "waiting until the instance of an older release ends, which serves alone"
WRITES = 60


@pytest.fixture(scope="module")
def old_code() -> Iterator[Path]:
    """Extract the code of 0.2.0 from the repository."""
    archived = subprocess.run(["git", "archive", OLD_RELEASE], cwd=ROOT, capture_output=True)
    if archived.returncode != 0:
        pytest.skip(f"the repository has no commit {OLD_RELEASE}: it is a shallow clone, or none at all")
    with tempfile.TemporaryDirectory(prefix="hostsvc-tests-") as directory:
        with tarfile.open(fileobj=io.BytesIO(archived.stdout)) as archive:
            archive.extractall(directory, filter="data")
        yield Path(directory)


@pytest.fixture
async def old_services(directory: Path, empty_database_url: str, old_code: Path) -> AsyncIterator[Services]:
    """Services of 0.2.0, run by this interpreter."""
    launch = launched_by("-m", "hostsvc", PYTHONPATH=str(old_code))
    old_directory = directory / "old"
    old_directory.mkdir()
    services = Services(old_directory, {"url": empty_database_url}, launch)
    yield services
    await services.end()


@pytest.fixture
async def new_services(directory: Path, empty_database_url: str, launch: Launch) -> AsyncIterator[Services]:
    services = Services(directory, {"url": empty_database_url}, launch)
    yield services
    await services.close()


async def leader_and_standby(
    services: Services, session: aiohttp.ClientSession, seed: int
) -> tuple[ServiceProcess, ServiceProcess, Load]:
    leader = await services.start()
    standby = await services.spawn()
    load = Load(await sign_up(session, leader.url), seed)
    load.urls.append((await standby.line()).removeprefix(STANDING_BY))
    return leader, standby, load


async def test_node_takes_over_when_standby_and_leader_have_ended(
    old_services: Services, new_services: Services, session: aiohttp.ClientSession
) -> None:
    leader, standby, load = await leader_and_standby(old_services, session, seed=71)
    async with load.going_on():
        await load.acknowledged(WRITES)
        node = await new_services.spawn()
        await line_of(node, event=WAITING)
        await load.acknowledged(WRITES)  # the old release goes on with the new schema
        for process in (standby, leader):
            process.terminate()
            assert await process.exit_code() == 0
        load.urls = [await node.ready()]
        await load.acknowledged(WRITES)
    await all_is_kept(load, new_services)
    assert "lead won" not in standby.log()
    assert old_services.crashes() == []


async def test_only_one_takes_over_from_a_killed_leader(
    old_services: Services, new_services: Services, session: aiohttp.ClientSession
) -> None:
    leader, standby, load = await leader_and_standby(old_services, session, seed=72)
    async with load.going_on():
        await load.acknowledged(WRITES)
        node = await new_services.spawn()
        await line_of(node, event=WAITING)
        await leader.kill()
        serving = asyncio.create_task(node.ready())
        await wait_until_either_acts(standby, node)
        await load.acknowledged(WRITES)
        assert not ("lead won" in standby.log() and "node joined" in node.log())
        standby.terminate()
        assert await standby.exit_code() == 0
        load.urls = [await serving]
        await load.acknowledged(WRITES)
    await all_is_kept(load, new_services)


async def test_two_nodes_are_upgraded_and_lose_no_request(
    new_services: Services, session: aiohttp.ClientSession
) -> None:
    first = await new_services.start()
    ground = Ground(new_services, await sign_up(session, first.url))
    await first.close()
    figures = {figure.name: figure for figure in await measure_rolling_upgrade(ground, 1)}
    assert figures["acknowledged and lost"].met
    assert figures["stored twice"].met
    assert figures["requests"].value > 0


async def wait_until_either_acts(standby: ServiceProcess, node: ServiceProcess) -> None:
    """Wait until the standby leads, or the node has joined."""

    async def look() -> bool | None:
        return "lead won" in standby.log() or "node joined" in node.log() or None

    await eventually(look, "the standby or the node to take over")
