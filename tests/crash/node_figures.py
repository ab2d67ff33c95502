"""`python -m tests.crash.node_figures`: how soon the agents of a node act again after each kind of failure.

Each time some agents hold a message at one node. Right after its failure each gets a message over another
node, which has to start a run at once: it cannot before that node has found the failed one dead. Exit 1 if a
figure misses its bar.
"""

import argparse
import asyncio
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import aiohttp

from tests.acceptance.client import eventually, sign_up
from tests.acceptance.process import Launch, launch_fresh, launched_by
from tests.acceptance.services import Services
from tests.benchmarks.figures import Figure, Result, Unit, percentile, show
from tests.crash.cutting_proxy import BlockingProxy
from tests.crash.faults import OwnPostgres, stopped
from tests.crash.ground import Ground
from tests.crash.rolling import measure_rolling_restart, measure_rolling_upgrade
from tests.paths import ROOT
from tests.processes import children, is_alive

FOUND_DEAD = 2  # the exit code of a node that others have found dead

OF_ANOTHER_MACHINE = "UPDATE node SET process = 'elsewhere/' || process WHERE process NOT LIKE 'elsewhere%%'"

# Starts `hostsvc` without any bell from node to node.
SILENT = """
from hostsvc.cli.commands import main
from storage.postgres.bells import Bells
assert callable(Bells.ring)
Bells.ring = lambda *_: None
main(prog_name="hostsvc")
"""


async def measure_worker(ground: Ground, times: int) -> list[Figure]:
    """Kill workers, of which others live on the machine and start them again."""
    service = await ground.services.spawn("--workers", "3")
    await service.ready()
    seconds = []
    for _ in range(times):
        victim, *_, other = await ground.living(3)
        kill = partial(os.kill, victim.pid, signal.SIGKILL)
        seconds.append(await ground.acting_again(victim, other, kill))
    return _delays("kill -9 of a worker", seconds, 0.7)


async def measure_other_machine(ground: Ground, times: int) -> list[Figure]:
    """Kill nodes whose processes the others cannot see."""
    for _ in range(2):
        await ground.services.start()
    seconds = []
    for _ in range(times):
        process = await ground.services.start()
        other, _, victim = await ground.living(3)
        await ground.query(OF_ANOTHER_MACHINE)
        kill = partial(process.send_signal, signal.SIGKILL)
        seconds.append(await ground.acting_again(victim, other, kill))
        await process.exit_code()
    return _delays("kill -9, other machine", seconds, 3.0)


async def measure_network(ground: Ground, times: int) -> list[Figure]:
    """Let nothing pass between a node and PostgreSQL, which keeps the connections open."""
    await ground.services.start()
    proxy, seconds = BlockingProxy(ground.services.database["url"]), []
    async with proxy.listening() as url:
        for _ in range(times):
            process = await ground.services.start(database={"url": url})
            other, victim = await ground.living(2)
            with ExitStack() as blocked:
                fail = partial(blocked.enter_context, proxy.blocked())
                seconds.append(await ground.acting_again(victim, other, fail))
            assert await process.exit_code() == FOUND_DEAD
    return _delays("network gone", seconds, 12.0)


async def measure_frozen(ground: Ground, times: int) -> list[Figure]:
    """Stop processes, which end once they go on."""
    await ground.services.start()
    seconds = []
    for _ in range(times):
        process = await ground.services.start()
        other, victim = await ground.living(2)
        with ExitStack() as frozen:
            fail = partial(frozen.enter_context, stopped(process.pid))
            seconds.append(await ground.acting_again(victim, other, fail))
        assert await process.exit_code() == FOUND_DEAD
    return _delays("SIGSTOP", seconds, 12.0)


async def measure_silent(ground: Ground, times: int) -> list[Figure]:
    """Write to agents over one of two nodes that never ring each other."""
    for _ in range(2):
        await ground.services.start()
    first, second = await ground.living(2)
    awake = [await ground.acting_again(first, second) for _ in range(times)]
    due = [await ground.reminded(second) for _ in range(times)]
    return _delays("all rings lost, awake", awake, 1.0) + _delays("all rings lost, due", due, 2.0)


async def measure_parent(ground: Ground, times: int) -> list[Figure]:
    """Kill the parent of workers, of whose agents the one on another machine takes care."""
    await ground.services.start()
    seconds = []
    for _ in range(times):
        parent = await ground.services.spawn("--workers", "2")
        await parent.ready()
        other, victim, _ = await ground.living(3)
        workers = children(parent.pid)
        kill = partial(parent.send_signal, signal.SIGKILL)
        seconds.append(await ground.acting_again(victim, other, kill))

        async def look(workers: Sequence[int] = workers) -> bool | None:
            return None if any(map(is_alive, workers)) else True

        await eventually(look, "the workers to end")
        await parent.exit_code()
    return _delays("parent dies", seconds, None)


def _delays(name: str, seconds: Sequence[float], bar: float | None) -> list[Figure]:
    return [
        Figure(f"{name}, p50 of {len(seconds)}", percentile(0.5, seconds), Unit.SECONDS),
        Figure(f"{name}, p99", percentile(0.99, seconds), Unit.SECONDS, at_most=bar),
        Figure(f"{name}, worst", max(seconds), Unit.SECONDS),
    ]


Measure = Callable[[Ground, int], Awaitable[list[Figure]]]
MEASURES: Mapping[str, tuple[Measure, Launch]] = {
    "worker": (measure_worker, launch_fresh),
    "machine": (measure_other_machine, launch_fresh),
    "network": (measure_network, launch_fresh),
    "frozen": (measure_frozen, launch_fresh),
    "silent": (measure_silent, launched_by("-c", SILENT, PYTHONPATH=str(ROOT))),
    "parent": (measure_parent, launch_fresh),
    "rolling": (measure_rolling_restart, launch_fresh),
    "upgrade": (measure_rolling_upgrade, launch_fresh),
}


async def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.node_figures")
    parser.add_argument("--times", type=int, default=50, help="how often each failure is tried")
    parser.add_argument("--only", nargs="+", choices=MEASURES, default=list(MEASURES))
    options = parser.parse_args()
    results = []
    for name in options.only:
        measure, launch = MEASURES[name]
        async with _ground(launch) as ground:
            results.append(Result(name, measure.__doc__ or "", await measure(ground, options.times)))
        print(show(results[-1]), flush=True)  # noqa: T201
    return 0 if all(result.met for result in results) else 1


@asynccontextmanager
async def _ground(launch: Launch) -> AsyncIterator[Ground]:
    """Yield a database without nodes, but with an organization."""
    directory = Path(tempfile.mkdtemp(prefix="hostsvc-crash-"))
    postgres = OwnPostgres(directory / "data")
    services = Services(directory, {"url": postgres.url}, launch)
    try:
        first = await services.start()
        async with aiohttp.ClientSession() as session:
            ground = Ground(services, await sign_up(session, first.url))
            await first.close()
            yield ground
    finally:
        await services.end()
        postgres.stop()
        shutil.rmtree(directory)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
