"""A service for each module of browser tests, and a browser for all of them.

All of these tests run in the event loop of the session, where the browser lives.
"""

import inspect
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import aiohttp
import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, expect

from tests import chromium
from tests.acceptance.client import Client
from tests.acceptance.process import Launch, ServiceProcess
from tests.acceptance.services import OPERATOR_TOKEN, Services
from tests.console.visits import DEFAULT_TIMEOUT_MS, Console, Person
from tests.leaks import PASSWORD
from tests.postgres import TestServer

HERE = Path(__file__).parent

expect.set_options(timeout=DEFAULT_TIMEOUT_MS)  # its own default is short for a browser on a busy machine


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run each module of browser tests in one process, and in the loop of the session."""
    for item in items:
        if item.path.is_relative_to(HERE) and is_async(item):
            item.add_marker(pytest.mark.xdist_group(f"console-{item.path.stem}"))
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


def is_async(item: pytest.Item) -> bool:
    return isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with chromium.browser() as browser:
        yield browser


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def profile(browser: Browser) -> BrowserContext:
    """The profile in which tests open their pages, as each new one costs a second of processor time."""
    return await browser.new_context()


@pytest.fixture(scope="module")
def module_directory() -> Iterator[Path]:
    """The directory of the module's services. pytest's own cannot be entered by PostgreSQL's account."""
    path = Path(tempfile.mkdtemp(prefix="hostsvc-tests-"))
    yield path
    shutil.rmtree(path)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def module_services(
    module_directory: Path, postgres_server: TestServer, template_database: str, launch: Launch
) -> AsyncIterator[Services]:
    """Services of the module, on one database."""
    with postgres_server.database(template_database) as url:
        services = Services(module_directory, {"url": url}, launch)
        yield services
        await services.close()
        assert services.crashes() == []


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def console_service(browser: Browser, module_services: Services) -> ServiceProcess:
    """The service of the module. It is not started if there is no browser."""
    return await module_services.start()


@pytest_asyncio.fixture(loop_scope="session")
async def console(
    browser: Browser, profile: BrowserContext, console_service: ServiceProcess
) -> AsyncIterator[Console]:
    """The console of the module's service; the test fails if the browser complains of anything."""
    console = Console(browser, profile, console_service.url)
    yield console
    await console.close()


@pytest_asyncio.fixture(loop_scope="session")
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest_asyncio.fixture(loop_scope="session")
async def person(http: aiohttp.ClientSession, console_service: ServiceProcess) -> Person:
    """The owner of a new organization."""
    return await sign_up(http, console_service.url)


@pytest_asyncio.fixture(loop_scope="session")
async def other_person(http: aiohttp.ClientSession, console_service: ServiceProcess) -> Person:
    """The owner of another organization."""
    return await sign_up(http, console_service.url)


@pytest.fixture
def operator(http: aiohttp.ClientSession, console_service: ServiceProcess) -> Person:
    """The operator of the service."""
    client = Client(http, console_service.url, f"Bearer {OPERATOR_TOKEN}")
    return Person(client, {"kind": "operator", "token": OPERATOR_TOKEN})


async def sign_up(http: aiohttp.ClientSession, url: str, organization_name: str = "Example") -> Person:
    """Sign up a person with a new organization."""
    account = await Client(http, url).post(
        "/api/organizations/auth/signup/",
        email=f"{uuid4().hex}@example.org",
        password=PASSWORD,
        organization_name=organization_name,
    )
    organization = {**account["organization"], "role": "owner"}
    session = {
        "kind": "person",
        "token": account["token"],
        "user": account["user"],
        "organizations": [organization],
        "organization": organization["id"],
    }
    return Person(Client(http, url, f"Token {account['token']}"), session)
