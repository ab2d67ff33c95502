"""The composition root: the state that a service reports, and a whole service in this process."""

import gc
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import pytest
from structlog.testing import capture_logs

from hostsvc import service as service_module
from hostsvc.config import Config, ConfigError, DatabaseChoice, ServerSettings
from hostsvc.process_end import EndRequest
from hostsvc.service import Service, open_service
from storage.postgres.pool import Pool
from supervisors.settings import RunSettings
from tests.acceptance.client import eventually
from tests.storage.factories import stored_agent
from web.ports import Readiness, ServiceState


@dataclass
class Parts:
    """The parts of a service that readiness asks, as a test sets them."""

    is_confirmed: bool = True
    away_since: datetime | None = None
    reason: str = ""
    stuck: tuple[str, ...] = field(default_factory=tuple)
    fails_since: datetime | None = None  # as a trial write would find
    failing_since: datetime | None = None
    last: SimpleNamespace | None = None

    async def check(self) -> None:
        self.failing_since = self.fails_since

    def reasons(self) -> tuple[str, ...]:
        return self.stuck


def service_of(parts: Parts, *, draining: bool = False) -> Service:
    names = ("membership", "doorbell", "stuck_agents", "writes")
    storage = SimpleNamespace(service_facts=parts)
    opened = cast(Any, SimpleNamespace(**dict.fromkeys(names, parts), storage=storage))
    return Service("http://one", "token", "http://one", opened, draining=draining)


async def test_service_with_everything_in_order_is_ready() -> None:
    service = service_of(Parts())
    assert await service.readiness() == Readiness(ServiceState.READY, (), may_serve=True)


async def test_paused_instance_says_why_and_how_to_go_on() -> None:
    since = datetime(2026, 11, 20, 10, 28, tzinfo=UTC)
    because = "it was restored from a backup of 2026-11-19 03:00 UTC"
    readiness = await service_of(
        Parts(last=SimpleNamespace(paused_at=since, paused_because=because))
    ).readiness()
    assert readiness.may_serve
    [reason] = readiness.reasons
    assert reason.startswith(f"The whole instance is paused since 2026-11-20 10:28 UTC: {because}. Nothing")


async def test_draining_service_does_not_serve() -> None:
    service = service_of(Parts(), draining=True)
    assert (await service.readiness()).state is ServiceState.DRAINING
    assert not (await service.readiness()).may_serve


async def test_node_that_is_not_confirmed_is_degraded_and_serves_nothing() -> None:
    service = service_of(Parts(is_confirmed=False))
    readiness = await service.readiness()
    assert (readiness.state, readiness.may_serve) == (ServiceState.DEGRADED, False)
    assert readiness.reasons == (
        "The database has not confirmed this node for a moment; no run starts until it does.",
    )


async def test_service_that_cannot_write_is_degraded_and_not_ready() -> None:
    since = datetime(2026, 11, 20, 10, 28, 36, tzinfo=UTC)
    parts = Parts(fails_since=since, reason="the disk of the database is full")
    readiness = await service_of(parts).readiness()
    assert (readiness.state, readiness.may_serve) == (ServiceState.DEGRADED, False)
    assert not readiness.can_write
    [reason] = readiness.reasons
    assert reason.startswith("The database has been unavailable since 2026-11-20 10:28:36")
    assert reason.endswith("the disk of the database is full.")


async def test_service_names_a_lost_doorbell_and_stuck_agents() -> None:
    away_since = datetime(2026, 11, 20, 10, 28, 36, tzinfo=UTC)
    parts = Parts(away_since=away_since, reason="Connection refused", stuck=("These agents are stuck.",))
    doorbell, stuck = (await service_of(parts).readiness()).reasons
    assert doorbell.startswith("The doorbell has been away since 2026-11-20 10:28:36")
    assert "(Connection refused)" in doorbell
    assert stuck == "These agents are stuck."
    assert (await service_of(parts).readiness()).may_serve


async def test_unknown_default_provider_prevents_the_start() -> None:
    config = Config(runs=RunSettings(default_provider="nobody"))
    with pytest.raises(ConfigError, match=r"runs\.default_provider must be one of builtin, got 'nobody'"):
        async with open_service(config, EndRequest()):
            pass


@pytest.fixture
def config(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Config:
    """A configuration for services in this process, which they leave as it is."""
    monkeypatch.setattr(service_module, "raise_descriptor_limit", lambda: 65_536)
    monkeypatch.setattr(service_module, "tune_garbage_collection", gc.collect)
    return Config(server=ServerSettings(port=0), database=DatabaseChoice(url=database_url))


async def test_open_service_serves_until_the_block_ends(config: Config) -> None:
    async with open_service(config, EndRequest()) as service, aiohttp.ClientSession() as session:
        assert service is not None

        async def look() -> bool | None:
            """A write that takes long on a busy machine makes it degraded for a moment."""
            async with session.get(f"{service.base_url}/readyz") as response:
                return (response.status, (await response.json())["state"]) == (200, "ready") or None

        await eventually(look, "the service to be ready")
    assert service.draining


async def test_start_warns_of_agents_whose_provider_is_removed(config: Config, pool: Pool) -> None:
    for model in ("gone/llama", "gone/llama", "builtin/inbox", "bare-name"):
        await stored_agent(pool, model=model)
    with capture_logs() as logged:
        async with open_service(config, EndRequest()):
            pass
    assert [(line["provider"], line["agents"]) for line in logged if "provider" in line] == [("gone", 2)]
