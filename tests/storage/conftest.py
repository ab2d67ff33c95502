"""Both kinds of store, and a server of a test's own, for what a test must not do to the shared one."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from hostsvc.embedded_postgres import EmbeddedPostgres
from hostsvc_testing.memory.memory_store import build_memory_storage
from hostsvc_testing.memory.tables import Tables
from storage.model import Agent, Organization
from storage.postgres.pool import Pool
from storage.storage import Storage
from supervisors.clock import SystemClock
from tests.storage.factories import NOW, adapter, organization, stored_organization, tool
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
    storage = build_memory_storage(tables, lambda ids: store.report(ids))

    async def new_tool(agent: Agent, name: str, **fields: Any) -> UUID:
        return storage.agent_tools.insert(name, **fields)

    store = Store(storage, new_organization, new_tool)
    return store


@pytest.fixture
def postgres(pool: Pool) -> Store:
    store: Store
    storage = Storage(pool, on_commit=lambda ids: store.report(ids), sleep=SystemClock().sleep)

    async def new_tool(agent: Agent, name: str, **fields: Any) -> UUID:
        package = adapter(agent.organization_id, name=name)
        await storage.adapters.insert(package)
        before = await storage.agents.get(agent.id)
        assert before is not None
        await storage.agents.update(agent.id, {"adapters": (*before.adapters, package.id)}, NOW)
        stored = tool(package.id, name=name, **fields)
        await storage.tools.insert(stored)
        return stored.id

    store = Store(storage, lambda: stored_organization(pool), new_tool)
    return store


@pytest.fixture(params=["postgres", "memory"])
def store(request: pytest.FixtureRequest) -> Store:
    requested: Store = request.getfixturevalue(request.param)
    return requested
