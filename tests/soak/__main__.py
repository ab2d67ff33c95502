"""Soak a service of its own: `python -m tests.soak --minutes 30`. It exits with 1 if something grows."""

import argparse
import asyncio
import json
import re
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from time import perf_counter

from rich.console import Console
from rich.table import Table

from hostsvc.embedded_postgres import EmbeddedPostgres
from tests.acceptance.process import Launch, Sections, ServiceProcess, launch_fresh, serving
from tests.attack.measuring import open_descriptors, resident_mb
from tests.attack.sizes import SHORT
from tests.attack.target import Target, create_documents, opened
from tests.soak.faults import FAULTS, Fault, Scene
from tests.soak.load import working
from tests.soak.trend import MAX_GROWTH, Sample, trends

OPERATOR_TOKEN = "operators-only"
SEED = 20
TASKS = re.compile(r"^hostsvc_tasks (\d+)", re.MULTILINE)
THREADS = re.compile(r"^Threads:\s+(\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a soak takes: all of it, each fault, the load after it, and the quiet before a sample."""

    total_seconds: float
    fault_seconds: float = 5.0
    load_seconds: float = 4.0
    quiet_seconds: float = 2.0
    documents: int = 100


async def soak(
    directory: Path,
    pace: Pace,
    console: Console,
    faults: Sequence[Fault] = FAULTS,
    launch: Launch = launch_fresh,
) -> list[Sample]:
    """Run a service under load, with one fault after the other, each at least once.

    Return a sample for the quiet moment after each fault.
    """
    samples: list[Sample] = []
    async with _scene(directory, pace, launch) as (scene, process):
        await create_documents(scene.target.attacker.key, pace.documents, 1_000_000)
        async with working(scene.target, SEED) as work:
            started, endless = perf_counter(), cycle(faults)
            while perf_counter() - started < pace.total_seconds or len(samples) < len(faults):
                fault = next(endless)
                await fault(scene)
                await asyncio.sleep(pace.load_seconds)
                work.goes_on.clear()
                await asyncio.sleep(pace.quiet_seconds)
                samples.append(await _sample(scene.target, perf_counter() - started))
                work.goes_on.set()
                console.print(f"{samples[-1]} after {fault.__name__}", style="dim", highlight=False)
        await _is_alive(scene.target)
        _print_answers(console, work.statuses, process)
    return samples


@asynccontextmanager
async def _scene(directory: Path, pace: Pace, launch: Launch) -> AsyncIterator[tuple[Scene, ServiceProcess]]:
    """Start a service with its embedded PostgreSQL, which the faults reach over a user of their own."""
    data_dir = directory / "data"
    sections: Sections = {
        "server": {"port": 0},
        "database": {"data_dir": str(data_dir)},
        "operator": {"token": OPERATOR_TOKEN},
    }
    server = EmbeddedPostgres(data_dir)
    url = await asyncio.to_thread(server.start)
    try:
        async with (
            serving(directory, "service", sections, launch) as process,
            opened(process.url, SHORT, process.pid, OPERATOR_TOKEN) as target,
        ):
            yield Scene(target, url, data_dir, pace.fault_seconds), process
    finally:
        await asyncio.to_thread(server.stop)


async def _sample(target: Target, seconds: float) -> Sample:
    headers = {"Authorization": f"Bearer {OPERATOR_TOKEN}"}
    metrics = (await target.send("GET", "/metrics", headers=headers)).text
    status = await asyncio.to_thread(Path(f"/proc/{target.pid}/status").read_text)
    tasks, threads = TASKS.search(metrics), THREADS.search(status)
    assert tasks, metrics[:200]
    assert threads
    return Sample(
        round(seconds, 1),
        round(resident_mb(target.pid) or 0, 1),
        open_descriptors(target.pid) or 0,
        int(tasks[1]),
        int(threads[1]),
    )


async def _is_alive(target: Target) -> None:
    """Fail unless the service is ready and works after all of it."""
    ready = await target.send("GET", "/readyz")
    assert ready.status == 200, ready
    await target.victim.key.notify(target.victim.agent, priority="low")


def _print_answers(console: Console, statuses: Counter[int], process: ServiceProcess) -> None:
    levels = Counter(json.loads(line)["level"] for line in process.log().splitlines())
    console.print(f"answers by status (0: none): {dict(sorted(statuses.items()))}")
    console.print(f"log lines by level: {dict(levels)}")


def print_trends(samples: list[Sample], round_length: int, console: Console) -> bool:
    """Print how each figure developed, and return whether all are flat."""
    table = Table("least of a round", "first", "last", "growth in 10 minutes", "bar", "verdict")
    found = trends(samples, round_length)
    for trend in found:
        table.add_row(
            trend.name,
            f"{trend.first:,.1f}",
            f"{trend.last:,.1f}",
            f"{trend.growth:+,.2f}",
            f"< {MAX_GROWTH[trend.name]:g}",
            "flat" if trend.is_flat else "GROWS",
        )
    console.print(table)
    return all(trend.is_flat for trend in found)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--without", nargs="+", default=[], metavar="FAULT", help="leave these faults out")
    options = parser.parse_args()
    faults = [fault for fault in FAULTS if fault.__name__ not in options.without]
    console = Console(width=160)
    with tempfile.TemporaryDirectory(prefix="hostsvc-soak-") as directory:
        Path(directory).chmod(0o711)  # PostgreSQL, which cannot run as root, passes through it to its data
        samples = asyncio.run(soak(Path(directory), Pace(options.minutes * 60), console, faults))
    raise SystemExit(0 if print_trends(samples, len(faults), console) else 1)


if __name__ == "__main__":
    main()
