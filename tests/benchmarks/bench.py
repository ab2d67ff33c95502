"""The servers that a row measures: services with fresh databases, and the bare handler beside them."""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

import aiohttp

from hostsvc.embedded_postgres import EmbeddedPostgres
from tests.acceptance.client import Client, sign_up
from tests.acceptance.process import Sections, ServiceProcess, serving
from tests.benchmarks.connection import CONNECTIONS
from tests.benchmarks.process_tree import cpu_seconds
from tests.benchmarks.rounds import BARE, Pace
from tests.benchmarks.trees import HERE, Tree

POOLED_CONNECTIONS = 60  # of all nodes of a service; the server allows 100, and each node has three more


@dataclass(frozen=True, slots=True)
class Database:
    """A fresh PostgreSQL server, and its first process."""

    url: str
    postmaster: int


@dataclass(frozen=True, slots=True)
class Server:
    """A process that answers requests, the database behind it, and the other nodes on that database."""

    name: str
    url: str
    pid: int
    database: Database
    others: Sequence[ServiceProcess] = ()

    @property
    def alone(self) -> "Server":
        """Return the first node only."""
        return replace(self, others=())

    @property
    def urls(self) -> Sequence[str]:
        return [self.url, *(other.url for other in self.others)]

    def cpu(self) -> tuple[float, float]:
        """Return the processor time of the server, all nodes of it, and of PostgreSQL, in seconds."""
        pids = (self.pid, *(other.pid for other in self.others))
        return sum(map(cpu_seconds, pids)), cpu_seconds(self.database.postmaster)


@dataclass(frozen=True, slots=True)
class Service:
    """A running service with an organization, and a client that acts for it."""

    server: Server
    process: ServiceProcess
    client: Client
    organization: str

    @property
    def name(self) -> str:
        return self.server.name

    @property
    def database_url(self) -> str:
        return self.server.database.url

    async def create_agents(self, count: int, name: str = "Agent") -> list[str]:
        names = (f"{name} {number}" for number in range(count))
        return await asyncio.gather(*(self.client.create_agent(name=name) for name in names))


@dataclass(frozen=True, slots=True)
class Bench:
    """Starts what a row measures. With `against` there is a second service, of another commit."""

    directory: Path
    pace: Pace
    is_quick: bool = False
    against: Tree | None = None
    _numbers: "count[int]" = field(default_factory=count)

    @asynccontextmanager
    async def database(self) -> AsyncIterator[Database]:
        """Run a new PostgreSQL server while the block lasts."""
        data = self.directory / f"data{next(self._numbers)}"
        postgres = EmbeddedPostgres(data)
        try:
            url = await asyncio.to_thread(postgres.start)
            yield Database(url, int((data / "postgres" / "postmaster.pid").read_text().split()[0]))
        finally:
            await asyncio.to_thread(postgres.stop)

    @asynccontextmanager
    async def service(self, sections: Sections | None = None, tree: Tree = HERE) -> AsyncIterator[Service]:
        """Run a service on a database of its own, with one organization."""
        async with self.database() as database, self.service_on(database, sections, tree) as service:
            yield service

    @asynccontextmanager
    async def service_on(
        self, database: Database, sections: Sections | None = None, tree: Tree = HERE
    ) -> AsyncIterator[Service]:
        """Run a service on this database, with a new organization."""
        connector = aiohttp.TCPConnector(limit=CONNECTIONS)
        async with (
            self.process_on(database, sections, tree) as process,
            aiohttp.ClientSession(connector=connector) as session,
        ):
            client = await sign_up(session, process.url)
            organizations = await client.get("/api/organizations/organizations/")
            server = Server(tree.name, process.url, process.pid, database)
            yield Service(server, process, client, organizations[0]["id"])

    @asynccontextmanager
    async def process_on(
        self, database: Database, sections: Sections | None = None, tree: Tree = HERE
    ) -> AsyncIterator[ServiceProcess]:
        """Run a service on this database, which has not been used when the block begins."""
        settings: Sections = {
            "server": {"port": 0},
            "database": {"url": database.url},
            **(sections or {}),
        }
        name = f"service{next(self._numbers)}"
        async with serving(self.directory, name, settings, tree.launch) as process:
            yield process

    @asynccontextmanager
    async def nodes(
        self, count: int, sections: Sections | None = None, tree: Tree = HERE
    ) -> AsyncIterator[Service]:
        """Run a service of this many nodes, each of which has its share of the requests."""
        async with AsyncExitStack() as stack:
            database = await stack.enter_async_context(self.database())
            pool_size = min(10, POOLED_CONNECTIONS // count)
            sections = {**(sections or {}), "database": {"url": database.url, "pool_size": pool_size}}
            service = await stack.enter_async_context(self.service_on(database, sections, tree))
            others = [
                await stack.enter_async_context(self.process_on(database, sections, tree))
                for _ in range(count - 1)
            ]
            name = f"{count} nodes" if others else "1 node"
            yield replace(service, server=replace(service.server, name=name, others=others))

    @asynccontextmanager
    async def services(self, sections: Sections | None = None) -> AsyncIterator[Sequence[Service]]:
        """Run the service of this tree and, if asked for, that of the other commit."""
        async with AsyncExitStack() as stack:
            trees = [HERE, self.against] if self.against else [HERE]
            yield [await stack.enter_async_context(self.service(sections, tree)) for tree in trees]

    @asynccontextmanager
    async def bare(self, service: Service) -> AsyncIterator[Server]:
        """Run the bare handler on the database of a service, for its organization."""
        database = service.server.database
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.benchmarks.bare_server", database.url, service.organization),
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            assert process.stdout is not None
            url = (await process.stdout.readline()).decode().strip()
            yield Server(BARE, url, process.pid, database)
        finally:
            process.kill()
            await process.wait()
