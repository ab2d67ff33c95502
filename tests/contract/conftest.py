"""The service of the tests of `web`, and one that a whole module shares."""

from collections.abc import AsyncIterator
from functools import partial
from ipaddress import ip_network

import pytest_asyncio

from storage.postgres.pool import DatabaseSettings, open_pool
from tests.contract.tenants import Tenant, new_tenant
from tests.nodes import NODES
from tests.postgres import TestServer
from tests.web.conftest import (
    Service,
    api,
    changed_settings,
    service,
    serving,
    serving_nodes,
    start_service,
)

__all__ = ["api", "service", "start_service"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_service(postgres_server: TestServer, template_database: str) -> AsyncIterator[Service]:
    """Yield what serves all tests of a module. It takes client addresses from X-Forwarded-For."""
    settings = changed_settings(trusted_proxies=(ip_network("127.0.0.1/32"),), signups_per_hour=0)
    with postgres_server.database(template_database) as url:
        contents = partial(postgres_server.contents, url)
        if NODES > 1:
            async with serving_nodes(url, settings, contents) as service:
                yield service
            return
        async with (
            open_pool(DatabaseSettings(url=url), node=None) as pool,
            serving(pool, settings, contents) as service,
        ):
            yield service


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ours(shared_service: Service) -> Tenant:
    return await new_tenant(shared_service)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def theirs(shared_service: Service) -> Tenant:
    return await new_tenant(shared_service)
