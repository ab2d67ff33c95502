"""The status for operators over HTTP, and readiness in each state."""

from datetime import UTC, datetime
from platform import python_version
from uuid import UUID

import pytest

from supervisors.engine.snapshot import RunsResponse
from tests.web.conftest import Api, Service
from web.api.service.status import sentence_of
from web.ports import Readiness, ServiceState

STATUS = "/status/"


async def test_status_describes_the_whole_service(service: Service, api: Api) -> None:
    template = await api.create_template(agent_created_webhook_url="https://example.org/created")
    await api.create_agent(template=template["id"])
    await api.create_agent()
    await service.storage.outbox.refresh_size()
    body = (await service.operator.get(STATUS)).body
    assert set(body) >= {"service", "supervisors", "agents", "runs", "timers", "loop_lag_ms", "database"}
    assert body["outbox"] == {"pending": 1, "failed": 0}
    assert body["service"]["state"] == "ready"
    assert body["service"]["uptime_seconds"] >= 0
    assert body["database"]["connections"] >= 1
    assert body["harness"] == {"kind": "builtin", "containment": "", "network": "", "remaining": 0}


async def test_supervisors_are_listed_filtered_and_read_one_by_one(service: Service, api: Api) -> None:
    agent = await api.create_agent()
    running = await api.create_agent(status="running")
    listed = (await service.operator.get("/status/supervisors/")).body
    assert {snapshot["agent"] for snapshot in listed} == {agent["id"], running["id"]}
    (one,) = (await service.operator.get("/status/supervisors/?phase=running")).body
    assert one["agent"] == running["id"]
    shown = (await service.operator.get(f"/status/supervisors/{agent['id']}/")).body
    assert (shown["phase"], shown["organization"]) == ("asleep", agent["organization"])
    (sleeping,) = (await service.operator.get("/status/supervisors/?status=sleeping")).body
    assert sleeping["agent"] == agent["id"]
    by_organization = f"/status/supervisors/?organization={agent['organization']}&limit=1"
    assert len((await service.operator.get(by_organization)).body) == 1


async def test_health_needs_no_credential(service: Service) -> None:
    assert (await service.nobody.get("/healthz")).status == 200
    answer = await service.nobody.get("/readyz")
    assert (answer.status, answer.body) == (200, {"state": "ready", "reasons": []})


async def test_draining_service_is_alive_but_not_ready(service: Service) -> None:
    service.health.stated = Readiness(ServiceState.DRAINING, ("SIGTERM",), may_serve=False)
    answer = await service.nobody.get("/readyz")
    assert (answer.status, answer.body) == (503, {"detail": "SIGTERM"})
    assert (await service.nobody.get("/healthz")).status == 200


async def test_service_without_the_lead_is_degraded_and_not_ready(service: Service) -> None:
    service.health.stated = Readiness(ServiceState.DEGRADED, ("The lead is away.",), may_serve=False)
    answer = await service.nobody.get("/readyz")
    assert (answer.status, answer.body) == (503, {"detail": "The lead is away."})
    assert (await service.operator.get(STATUS)).body["service"]["state"] == "degraded"


async def test_degraded_service_may_still_be_ready(service: Service) -> None:
    service.health.stated = Readiness(ServiceState.DEGRADED, ("An agent is stuck.",))
    assert (await service.nobody.get("/readyz")).status == 200
    assert (await service.operator.get(STATUS)).body["service"]["reasons"] == ["An agent is stuck."]


async def test_status_before_the_first_measurement_has_no_facts(service: Service) -> None:
    body = (await service.operator.get(STATUS)).body
    assert body["sentence"] == "The service is ready. 0 of 100 run slots are taken."
    assert body["versions"] == {"python": python_version(), "postgresql": None, "schema": None}
    assert body["lead"] == {"is_held": True, "epoch": None, "standbys": None}
    assert (body["phases"], body["oldest_uncleared_high"], body["forgotten"]) == ({}, None, [])


async def test_status_names_versions_phases_and_what_needs_a_person(service: Service, api: Api) -> None:
    agent = await api.create_agent(name="Rosa", status="running")
    await api.create_agent()
    await api.create_notification(agent, priority="high")
    now = datetime.now(UTC)
    await service.storage.service_facts.refresh(now)
    service.health.stuck = {UUID(agent["id"]): now}
    service.health.stated = Readiness(ServiceState.DEGRADED, ("The lead is away.",), leads=False)
    body = (await service.operator.get(STATUS)).body
    assert body["sentence"] == "The service has a problem. 1 of 100 run slots is taken."
    assert body["versions"]["schema"] > 0
    assert body["lead"] == {"is_held": False, "epoch": 0, "standbys": 0}
    assert body["phases"] == {"running": 1, "asleep": 1}
    oldest = body["oldest_uncleared_high"]
    assert (oldest["agent"], oldest["name"]) == (agent["id"], "Rosa")
    assert body["forgotten"][0]["agent"] == agent["id"]
    assert body["failing_webhooks"] == 0


@pytest.mark.parametrize(
    ("state", "problems", "queued", "sentence"),
    [
        ("ready", 0, 0, "The service is ready. 3 of 32 run slots are taken"),
        (
            "degraded",
            1,
            1,
            "The service has a problem. 3 of 32 run slots are taken, and 1 agent waits for one",
        ),
        ("degraded", 2, 0, "The service has 2 problems. 3 of 32 run slots are taken"),
        (
            "draining",
            1,
            2,
            "The service is shutting down. 3 of 32 run slots are taken, and 2 agents wait for one",
        ),
    ],
)
def test_sentence_tells_state_and_work(state: str, problems: int, queued: int, sentence: str) -> None:
    readiness = Readiness(ServiceState(state), ("It is full.",) * problems, may_serve=True)
    assert sentence_of(readiness, RunsResponse(running=3, queued=queued, limit=32)) == f"{sentence}."
