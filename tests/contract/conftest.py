"""Fixtures: the service of the tests of `web`, and one that a whole module shares."""

from collections.abc import AsyncIterator
from dataclasses import replace
from ipaddress import ip_network

import pytest_asyncio

from storage.postgres.pool import DatabaseSettings, open_pool
from tests.contract.places import Place, new_place
from tests.postgres import TestServer
from tests.web.conftest import SETTINGS, Service, api, service, serving, start_service

__all__ = ["api", "service", "start_service"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def standing(postgres_server: TestServer, template_database: str) -> AsyncIterator[Service]:
    """A service for the module. Each request states the address that it comes from."""
    settings = replace(SETTINGS, trusted_proxies=(ip_network("127.0.0.1/32"),))
    with postgres_server.database(template_database) as url:
        async with (
            open_pool(DatabaseSettings(url=url), epoch=None) as pool,
            serving(pool, settings) as service,
        ):
            yield service


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ours(standing: Service) -> Place:
    return await new_place(standing)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def theirs(standing: Service) -> Place:
    return await new_place(standing)
