"""The rolling restart of nodes behind a load balancer, under load, and their upgrade.

Each node in turn gets SIGTERM, and another one starts in its place once it has ended. In an upgrade the other
one has migrations more, which it applies while the old ones work.
The balancer looks at `/readyz` twice a second. A request that is refused or whose connection breaks is sent
again, with the same Idempotency-Key, as clients have to.
"""

import asyncio
import shutil
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from uuid import uuid4

import aiohttp

from tests.acceptance.client import Client
from tests.acceptance.process import launched_by
from tests.acceptance.services import Services
from tests.benchmarks.figures import Figure, Unit, percentile
from tests.crash.ground import Ground
from tests.crash.load import NOTIFICATIONS, UNANSWERED
from tests.paths import ROOT

NODES, UPGRADED_NODES = 4, 2
AGENTS, WRITERS = 100, 8
PACE_SECONDS, LOOK_SECONDS = 0.05, 0.5
TIMEOUT = aiohttp.ClientTimeout(10.0)

PACKAGES = ("hostsvc", "web", "supervisors", "storage")
COLUMN = "-- rolling\nALTER TABLE notification ADD COLUMN planted_{0} text;\n"
INDEX = """-- no transaction
CREATE INDEX CONCURRENTLY notification_planted_{0} ON notification (planted_{0});
"""
PLANTED = "SELECT count(*) FROM schema_migration WHERE name LIKE '%_planted.sql'"

STORED = "SELECT id::text FROM notification WHERE priority = 'high' AND source = 'api'"
LATENESS = """
SELECT extract(epoch FROM min(r.started_at) - n.created_at)::float8
FROM run r JOIN notification n ON n.id = ANY (r.notifications) GROUP BY n.id
"""


@dataclass(slots=True)
class Balancer:
    """Sends each request to one of the nodes that it takes for ready, and counts how they end."""

    client: Client
    urls: list[str]
    agents: Sequence[str] = ()
    ready: set[str] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)
    stored: list[str] = field(default_factory=list)
    random: Random = field(default_factory=lambda: Random(1))  # noqa: S311

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator[None]:
        """Send notifications while the block lasts, and wait until all are acknowledged."""
        enough = asyncio.Event()
        looking = asyncio.create_task(self._look())
        writers = [asyncio.create_task(self._write(enough)) for _ in range(WRITERS)]
        try:
            yield
            enough.set()
            await asyncio.gather(*writers)
        finally:
            for task in (looking, *writers):
                task.cancel()
            await asyncio.wait([looking, *writers])

    async def _look(self) -> None:
        while True:
            for url in list(self.urls):
                try:
                    is_ready = await self.client.at(url).status_of("/readyz") == 200
                except aiohttp.ClientError:
                    is_ready = False
                (self.ready.add if is_ready else self.ready.discard)(url)
            await asyncio.sleep(LOOK_SECONDS)

    async def _write(self, enough: asyncio.Event) -> None:
        while not enough.is_set():
            body = {"agent": self.random.choice(self.agents), "title": "Hello", "priority": "high"}
            headers = {"Authorization": self.client.authorization, "Idempotency-Key": uuid4().hex}
            while not await self._send(body, headers):  # noqa: ASYNC110 -- nobody tells when to try again
                await asyncio.sleep(PACE_SECONDS)
            await asyncio.sleep(PACE_SECONDS)

    async def _send(self, body: dict[str, str], headers: dict[str, str]) -> bool:
        """Send a request once. Return whether it was acknowledged."""
        url = self.random.choice(sorted(self.ready & set(self.urls)) or self.urls)
        self.counts["sent"] += 1
        try:
            async with self.client.session.post(
                url + NOTIFICATIONS, json=body, headers=headers, timeout=TIMEOUT
            ) as response:
                answer = await response.json()
        except (aiohttp.ClientError, TimeoutError):
            self.counts["broken"] += 1
            self.ready.discard(url)
            return False
        if response.status in UNANSWERED:
            self.counts[str(response.status)] += 1
            return False
        assert response.status == 201, f"{response.status} {answer}"
        self.stored.append(answer["id"])
        return True


async def measure_rolling_restart(ground: Ground, times: int) -> list[Figure]:
    """Restart four nodes one after the other, so many times, while clients write."""
    return await _measure(ground, ground.services, NODES, times, lambda _: None)


async def measure_rolling_upgrade(ground: Ground, times: int) -> list[Figure]:
    """Upgrade two nodes one after the other, so many times, while clients write."""
    with tempfile.TemporaryDirectory(prefix="hostsvc-tests-") as directory:
        code = Path(directory)
        for package in PACKAGES:
            shutil.copytree(ROOT / package, code / package, ignore=shutil.ignore_patterns("__pycache__"))
        launch = launched_by("-m", "hostsvc", PYTHONPATH=directory)
        services = Services(code, ground.services.database, launch)
        try:
            figures = await _measure(ground, services, UPGRADED_NODES, times, partial(plant, code))
        finally:
            await services.end()
        assert await ground.query(PLANTED) == [(2 * times,)]
        return figures


def plant(code: Path, upgrade: int) -> None:
    """Add two migrations to copied code: one locks a busy table briefly, and one builds an index."""
    folder = code / "storage" / "migrations"
    last = int(max(file.name for file in folder.iterdir())[:4])
    for number, sql in enumerate((COLUMN, INDEX), last + 1):
        (folder / f"{number:04}_planted.sql").write_text(sql.format(upgrade))


async def _measure(
    ground: Ground, services: Services, nodes: int, times: int, prepare: Callable[[int], None]
) -> list[Figure]:
    processes = [await services.start() for _ in range(nodes)]
    balancer = Balancer(ground.client, [process.url for process in processes])
    client = ground.client.at(balancer.urls[0])
    balancer.agents = [await client.create_agent() for _ in range(AGENTS)]
    async with balancer.going_on():
        for number in range(times):
            prepare(number)
            for place, process in enumerate(processes):
                process.terminate()
                assert await process.exit_code() == 0
                processes[place] = await services.start()
                balancer.urls[place] = processes[place].url
    found = Counter(one for (one,) in await ground.query(STORED))
    lost = len(set(balancer.stored) - set(found))
    late = [seconds for (seconds,) in await ground.query(LATENESS)]
    counts = balancer.counts
    return [
        Figure("requests", counts["sent"], Unit.COUNT),
        Figure("acknowledged and lost", lost, Unit.COUNT, at_most=0),
        Figure("stored twice", len(found) - len(balancer.stored) + lost, Unit.COUNT, at_most=0),
        Figure("connections that broke, sent again", counts["broken"], Unit.COUNT),
        Figure("refused with 503", 100 * counts["503"] / counts["sent"], Unit.PERCENT, at_most=0.1),
        Figure("wakes late, p99", percentile(0.99, late), Unit.SECONDS),
        Figure("wakes late, worst", max(late), Unit.SECONDS, at_most=1.0),
    ]
