"""Workers: their shares of what there is, and the parent that starts, watches and ends them."""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import aiohttp
import pytest

from hostsvc.config import Config, DatabaseChoice, NodeSettings, ServerSettings
from hostsvc.workers import describe_shares, worker_config
from supervisors.settings import RunSettings
from tests.paths import ROOT
from tests.patience import PATIENCE_SECONDS
from tests.processes import is_alive

NAMES = {"m/1", "m/2"}


def config_of(
    workers: int, pool_size: int = 10, max_concurrent: int = 100, connections: int = 10_000
) -> Config:
    return Config(
        node=NodeSettings(name="m", workers=workers),
        database=DatabaseChoice(pool_size=pool_size),
        runs=RunSettings(max_concurrent=max_concurrent),
        server=ServerSettings(max_connections=connections),
    )


@pytest.mark.parametrize(
    ("workers", "pool_sizes"), [(1, [10]), (2, [5, 5]), (3, [4, 3, 3]), (4, [3, 3, 2, 2]), (12, [1] * 12)]
)
def test_workers_share_out_the_whole_and_have_at_least_one(workers: int, pool_sizes: list[int]) -> None:
    shares = [worker_config(config_of(workers, max_concurrent=workers), k + 1) for k in range(workers)]
    assert [share.database.pool_size for share in shares] == pool_sizes
    assert [share.runs.max_concurrent for share in shares] == [1] * workers
    assert sum(share.server.max_connections for share in shares) == 10_000


def test_worker_has_at_least_the_minimum_of_connections() -> None:
    shares = [worker_config(config_of(3, connections=20), number) for number in (1, 2, 3)]
    assert [share.server.max_connections for share in shares] == [16, 16, 16]


def test_workers_differ_in_name_and_cache() -> None:
    one, two = (worker_config(config_of(2), number) for number in (1, 2))
    assert (one.node.name, two.node.name) == ("m/1", "m/2")
    assert one.harness.cache_dir == Path("data/harness/worker-1")
    assert replace(two, node=one.node, harness=one.harness) == one
    assert worker_config(Config(), 1).node.name == f"{os.uname().nodename}/1"


def test_shares_are_described_for_each_worker() -> None:
    assert list(describe_shares(config_of(3))) == [
        "worker m/1: database.pool_size 4, runs.max_concurrent 34, server.max_connections 3334",
        "worker m/2: database.pool_size 3, runs.max_concurrent 33, server.max_connections 3333",
        "worker m/3: database.pool_size 3, runs.max_concurrent 33, server.max_connections 3333",
    ]


@dataclass
class StandIn:
    """A parent with two workers of `tests.hostsvc.worker_stand_in`."""

    process: Process
    log: Path
    url: str = ""

    async def line(self) -> list[str]:
        """Return the words of the next line that one of them prints; none at the end of all."""
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            return (await self.process.stdout.readline()).decode().split()

    async def lines(self, count: int) -> set[tuple[str, ...]]:
        return {tuple(await self.line()) for _ in range(count)}

    async def worker(self) -> tuple[str, int]:
        """Wait for the next worker that serves, and return its name and process."""
        words = await self.line()
        assert words[0] == "serves"
        return words[1], int(words[2])

    async def both(self) -> dict[str, int]:
        """Wait until both serve, and return their processes by their names."""
        workers = dict([await self.worker(), await self.worker()])
        word, self.url = await self.line()
        assert word == "ready"
        return workers

    async def exit_code(self) -> int:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self.process.wait()

    async def answerer(self) -> str:
        """Return the name of the worker that answers a new connection."""
        connector = aiohttp.TCPConnector(force_close=True)
        async with aiohttp.ClientSession(connector=connector) as session, session.get(self.url) as response:
            return str((await response.json())["name"])

    def ends(self) -> list[tuple[int, int, float]]:
        """Return the ends of workers in the log: number, exit code, seconds to the restart."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [
            (line["worker"], line["exit_code"], line["restart_seconds"])
            for line in lines
            if line["event"] == "worker ended"
        ]


@asynccontextmanager
async def stand_in(directory: Path, behaviour: str) -> AsyncIterator[StandIn]:
    log = directory / "log"
    with log.open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-W", "error", "-m", "tests.hostsvc.worker_stand_in", behaviour),
            cwd=ROOT,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=stderr,
            start_new_session=True,  # a group of its own, to which a test sends signals
        )
    try:
        yield StandIn(process, log)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_hangup_before_a_worker_serves_does_not_end_it(tmp_path: Path) -> None:
    async with stand_in(tmp_path, "hung up") as parent:
        assert set(await parent.both()) == NAMES
        assert parent.ends() == []


async def test_both_workers_answer_and_end_on_sigterm(tmp_path: Path) -> None:
    async with stand_in(tmp_path, "serve") as parent:
        workers = await parent.both()
        assert set(workers) == NAMES
        assert len({parent.process.pid, *workers.values()}) == 3
        while {await parent.answerer() for _ in range(8)} != NAMES:
            pass
        parent.process.terminate()
        assert await parent.exit_code() == 0
        assert await parent.lines(3) == {("requested", "m/1"), ("requested", "m/2"), ()}
    assert "uncaught" not in parent.log.read_text()


async def test_killed_worker_is_started_again_less_and_less_soon(tmp_path: Path) -> None:
    async with stand_in(tmp_path, "serve") as parent:
        process_id = (await parent.both())["m/2"]
        for _ in range(3):
            os.kill(process_id, signal.SIGKILL)
            assert await parent.answerer() in NAMES
            name, process_id = await parent.worker()
            assert name == "m/2"
        while await parent.answerer() != "m/2":
            pass
        parent.process.terminate()
        assert await parent.exit_code() == 0
    assert parent.ends() == [(2, -signal.SIGKILL, seconds) for seconds in (0.1, 0.2, 0.4)]


async def test_queued_connections_survive_the_kill_of_all_workers(tmp_path: Path) -> None:
    async with stand_in(tmp_path, "serve") as parent:
        workers = await parent.both()
        for process_id in workers.values():
            os.kill(process_id, signal.SIGSTOP)
        queued = [asyncio.create_task(parent.answerer()) for _ in range(20)]
        await asyncio.sleep(0.2)
        for process_id in workers.values():
            os.kill(process_id, signal.SIGKILL)
        assert set(await asyncio.gather(*queued)) <= NAMES


async def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    async with stand_in(tmp_path, "serve") as parent:
        workers = await parent.both()
        parent.process.kill()
        assert await parent.lines(3) == {("requested", "m/1"), ("requested", "m/2"), ()}
    async with asyncio.timeout(PATIENCE_SECONDS):
        while any(map(is_alive, workers.values())):  # noqa: ASYNC110 -- they are not our children
            await asyncio.sleep(0.02)


async def test_only_a_second_signal_to_the_parent_hurries_workers(tmp_path: Path) -> None:
    async with stand_in(tmp_path, "slow") as parent:
        await parent.both()
        os.killpg(parent.process.pid, signal.SIGINT)  # as a terminal does: to the workers, too
        assert await parent.lines(2) == {("requested", "m/1"), ("requested", "m/2")}
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(parent.process.wait(), 0.5)
        parent.process.terminate()
        assert await parent.exit_code() == 0
        assert await parent.lines(3) == {("hurried", "m/1"), ("hurried", "m/2"), ()}


async def test_terminated_worker_is_started_again(tmp_path: Path) -> None:
    async with stand_in(tmp_path, "serve") as parent:
        workers = await parent.both()
        os.kill(workers["m/1"], signal.SIGTERM)
        assert await parent.line() == ["requested", "m/1"]
        assert (await parent.worker())[0] == "m/1"
    assert parent.ends() == [(1, 0, 0.1)]


async def test_refused_first_worker_ends_the_parent_with_its_code(tmp_path: Path) -> None:
    async with stand_in(tmp_path, "refuse") as parent:
        assert await parent.exit_code() == 2
        assert await parent.line() == ["refused", "m/1"]
        assert await parent.line() == []
    assert parent.ends() == []
