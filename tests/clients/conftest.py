"""One service for all tests of the client, and both clients."""

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from hostsvc_client import AsyncHostsvc, Hostsvc

from tests.clients.process import Blocking, Service
from tests.forked_processes import ForkServer
from tests.postgres import TestServer


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep these tests on one worker, which starts the service once."""
    for item in items:
        if item.path.parent.name == "clients":
            item.add_marker(pytest.mark.xdist_group("client"))


@pytest.fixture(scope="session")
def shared(
    postgres_server: TestServer,
    template_database: str,
    fork_server: ForkServer | None,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Service]:
    with postgres_server.database(template_database) as url:
        service = Service(tmp_path_factory.mktemp("service"), url, fork_server)
        service.start()
        yield service
        service.end()


@pytest.fixture(scope="session")
def key(shared: Service) -> str:
    return shared.sign_up("client@example.org")


@pytest.fixture(params=["sync", "async"])
def client(request: pytest.FixtureRequest, shared: Service, key: str) -> Iterator[Hostsvc]:
    """Yield each client in turn, as the tests of one are those of the other."""
    if request.param == "sync":
        with Hostsvc(shared.url, key) as hostsvc:
            yield hostsvc
        return
    with asyncio.Runner() as runner:

        async def open_client() -> AsyncHostsvc:
            return AsyncHostsvc(shared.url, key)

        asynchronous = runner.run(open_client())
        yield cast("Hostsvc", Blocking(asynchronous, runner))
        runner.run(asynchronous.aclose())


@pytest.fixture
def hostsvc(shared: Service, key: str) -> Iterator[Hostsvc]:
    """Yield the synchronous client."""
    with Hostsvc(shared.url, key) as client:
        yield client


@pytest.fixture
def own_service(database_url: str, fork_server: ForkServer | None, tmp_path: Path) -> Iterator[Service]:
    """Yield a service that the test may kill."""
    service = Service(tmp_path, database_url, fork_server)
    service.start()
    yield service
    service.end(signal.SIGKILL)
