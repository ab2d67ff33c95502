"""The attacks on one real service, those that wait longest excepted: `python -m tests.attack` makes all."""

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from functools import partial

import pytest
import pytest_asyncio

from tests.acceptance.process import Sections, ServiceProcess, serving
from tests.attack.answers import injected_headers
from tests.attack.catalogue import ATTACKS
from tests.attack.findings import Attack
from tests.attack.measuring import seconds_computed
from tests.attack.models import hostile_model_server
from tests.attack.sizes import SHORT
from tests.attack.target import Target, opened
from tests.nodes import NODES
from tests.patience import PATIENCE_SECONDS
from tests.postgres import TestServer
from tests.processor_time import slowness

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("attacks")]

OPERATOR_TOKEN = "operators-only"
TOKEN_SECRET = "0123456789abcdef0123456789abcdef"
SLACK = 3.0  # times the bars for an idle machine, in processor time


TESTED = [attack for attack in ATTACKS if attack.waits_seconds <= SHORT.max_wait_seconds]


@pytest.fixture(scope="module")
def module_database_url(postgres_server: TestServer, template_database: str) -> Iterator[str]:
    with postgres_server.database(template_database) as url:
        yield url


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def models_url() -> AsyncIterator[str]:
    async with hostile_model_server() as url:
        yield url


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service(
    tmp_path_factory: pytest.TempPathFactory, module_database_url: str, models_url: str
) -> AsyncIterator[ServiceProcess]:
    """Serve in a new interpreter, where a password costs what it does for attackers."""
    sections: Sections = {
        "server": {"port": 0},
        # A connection that a slow machine frees late is no reason to refuse what an attack lets through.
        "database": {"url": module_database_url, "acquire_timeout_seconds": PATIENCE_SECONDS},
        "operator": {"token": OPERATOR_TOKEN},
        "accounts": {"token_secret": TOKEN_SECRET},
        "models.hostile": {"base_url": models_url, "stream": True},
    }
    workers = ("--workers", str(NODES))
    async with serving(tmp_path_factory.mktemp("attack"), "service", sections, options=workers) as process:
        yield process


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def target(service: ServiceProcess) -> AsyncIterator[Target]:
    # What others wait for is measured by what the service computes, so that other tests do not lengthen it.
    clock = partial(seconds_computed, service.pid)
    sizes = replace(SHORT, patience=SLACK * slowness())
    async with opened(
        service.url, sizes, service.pid, OPERATOR_TOKEN, TOKEN_SECRET, "hostile", clock
    ) as target:
        yield target


async def breaches(attack: Attack, target: Target) -> list[str]:
    """Return what the attack found above its bars, as sentences."""
    findings = await attack.run(target)
    assert findings
    return [
        f"{found.subject}: {found.measured}, not {found.bar}" for found in findings if found.held is False
    ]


@pytest.mark.parametrize("attack", TESTED, ids=lambda attack: attack.name)
async def test_service_withstands_attack(target: Target, attack: Attack) -> None:
    assert await breaches(attack, target) == []


async def test_log_of_attacked_service_has_one_object_a_line(service: ServiceProcess, target: Target) -> None:
    await injected_headers(target)
    for line in service.log().splitlines():
        entry = json.loads(line)
        assert entry["level"] in ("info", "warning"), line
        assert "\n" not in entry["event"]
