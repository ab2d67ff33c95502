"""Both kinds of store, and a server of a test's own, for what a test must not do to the shared one."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostsvc.embedded_postgres import EmbeddedPostgres
from hostsvc_testing.memory.memory_store import build_memory_storage
from hostsvc_testing.memory.tables import Tables
from storage.model import Organization
from storage.postgres.pool import Pool
from storage.storage import Storage
from supervisors.clock import SystemClock
from tests.storage.factories import organization, stored_organization
from tests.storage.stores import Store


@pytest.fixture
def own_server() -> Iterator[EmbeddedPostgres]:
    """Yield a server that is not running, which a test may start, stop and configure."""
    # Not pytest's own directory: a server started by root could not pass through its parents.
    data_dir = Path(tempfile.mkdtemp(prefix="hostsvc-tests-"))
    server = EmbeddedPostgres(data_dir)
    yield server
    server.stop()
    shutil.rmtree(data_dir)


@pytest.fixture
def memory() -> Store:
    tables = Tables()

    async def new_organization() -> Organization:
        made = organization()
        tables.organizations[made.id] = made
        return made

    store: Store
    store = Store(build_memory_storage(tables, lambda ids: store.report(ids)), new_organization)
    return store


@pytest.fixture
def postgres(pool: Pool) -> Store:
    store: Store
    storage = Storage(pool, on_commit=lambda ids: store.report(ids), sleep=SystemClock().sleep)
    store = Store(storage, lambda: stored_organization(pool))
    return store


@pytest.fixture(params=["postgres", "memory"])
def store(request: pytest.FixtureRequest) -> Store:
    requested: Store = request.getfixturevalue(request.param)
    return requested
