"""The maintenance services: which ones run, how often, and what happens if one fails."""

import asyncio
from dataclasses import fields
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from structlog.testing import capture_logs

from hostsvc.background import (
    Chores,
    MaintenanceService,
    Parts,
    _measure,
    maintenance_services,
    run_maintenance,
)
from hostsvc.config import Config
from hostsvc.signals import PARKED_CALLS, Signals
from supervisors.clock import SystemClock
from supervisors.settings import SupervisorSettings
from tests.patience import PATIENCE_SECONDS
from tests.storage.factories import NOW


def test_every_duty_has_a_service_with_its_interval() -> None:
    config = Config(supervisors=SupervisorSettings(scan_interval_seconds=7))
    parts: dict[str, Any] = {field.name: MagicMock() for field in fields(Parts)}  # only passed on
    services = maintenance_services(Parts(**parts | {"config": config, "clock": SystemClock()}))
    assert {service.name: service.interval_seconds for service in services} == {
        "mail": 0,
        "node watch": 0.1,
        "bells": 0,
        "sweep": 1,
        "due scan": 7,
        "doorbell catch-up": 1,
        "pause sync": 7,
        "budget renewal": 7,
        "agent counter": 7,
        "service measurement": 7,
        "outbox measurement": 7,
        "approval measurement": 60,
        "due look": 0.01,
        "schedules": 0,
        "checks of schedules": 0,
        "tools of MCP servers": 0,
        "parked calls": 0,
        "webhook sender": 0,
        "webhook matcher": 0.5,
        "audit log": 0,
        "event feed": 0,
        "write probe": 0.25,
        "connection renewal": 1800,
        "stuck agent watch": 10,
        "loop lag probe": 0,
        "idle supervisor cleaner": 10,
        "deleted agent cleaner": 60,
        "retention cleaner": 3600,
        "counters of ended nodes": 3600,
        "receipt cleaner": 60,
        "span export": 1,
    }
    assert {service.name for service in services if service.counts} == {
        "agent counter",
        "service measurement",
        "outbox measurement",
        "approval measurement",
    }


async def test_decision_reaches_the_node_that_does_the_chores() -> None:
    decided_here, decided_there = asyncio.Event(), asyncio.Event()
    rung: list[str] = []
    there = Signals(MagicMock())
    there.storage = MagicMock()
    there.storage.parked_calls.stored = decided_there
    here: Any = SimpleNamespace(ring_for_chores=rung.append)
    chore = Chores(MagicMock(does_chores=False), here, SystemClock())
    decided_here.set()

    await chore(_fail, decided_here, PARKED_CALLS)()
    there.on_bell(rung[0], ())

    assert decided_there.is_set()
    assert not decided_here.is_set()


async def _fail() -> None:
    raise AssertionError("another node does the chores")


async def test_pause_of_the_instance_is_logged_once() -> None:
    paused_at = [None, NOW, NOW, None]
    facts: Any = SimpleNamespace(last=None)

    async def refresh(_: object) -> None:
        facts.last = SimpleNamespace(paused_at=paused_at.pop(0), paused_because="its operator has paused it")

    facts.refresh = refresh
    with capture_logs() as logs:
        while paused_at:
            await _measure(facts, SystemClock())
    assert [line["event"] for line in logs] == ["instance paused", "instance resumed"]
    assert logs[0]["reason"] == "its operator has paused it"


async def test_services_run_until_the_block_ends() -> None:
    calls: list[str] = []
    both_ran = asyncio.Event()

    async def count(name: str) -> None:
        calls.append(name)
        if {*calls} == {"a", "b"} and len(calls) >= 6:
            both_ran.set()

    services = [
        MaintenanceService("a", lambda: count("a"), 0),
        MaintenanceService("b", lambda: count("b"), 0),
    ]
    async with run_maintenance(services, SystemClock()):
        await asyncio.wait_for(both_ran.wait(), PATIENCE_SECONDS)
    counted = len(calls)
    await asyncio.sleep(0)
    assert len(calls) == counted


async def test_service_that_ends_is_logged() -> None:
    stopped = asyncio.Event()

    async def stop() -> None:
        stopped.set()
        raise SystemError("the loop itself ends")

    with pytest.MonkeyPatch.context() as patch, capture_logs() as logs:
        patch.setattr("hostsvc.background.repeat", lambda *_, **__: stop())
        async with run_maintenance([MaintenanceService("ending", stop, 0)], SystemClock()):
            await stopped.wait()
            await asyncio.sleep(0)
    assert [line["event"] for line in logs] == ["a maintenance service has stopped"]
