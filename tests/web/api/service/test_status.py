"""The status for operators over HTTP, and readiness in each state."""

from datetime import UTC, datetime
from platform import python_version
from uuid import UUID

import pytest

from storage.postgres.node import Node
from storage.postgres.pool import PoolSize
from supervisors.engine.snapshot import MailboxesResponse, RunsResponse, Spread, SupervisorsResponse
from tests.nodes import LoneNode, living_node
from tests.web.conftest import Api, Service
from web.api.service.status import sentence_of
from web.app_keys import NODES
from web.node_numbers import NodeNumbers
from web.ports import Readiness, ServiceState

pytestmark = pytest.mark.one_node  # the other nodes are made up

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


async def test_node_that_is_not_confirmed_is_degraded_and_not_ready(service: Service) -> None:
    service.health.stated = Readiness(ServiceState.DEGRADED, ("The beat is late.",), may_serve=False)
    answer = await service.nobody.get("/readyz")
    assert (answer.status, answer.body) == (503, {"detail": "The beat is late."})
    assert (await service.operator.get(STATUS)).body["service"]["state"] == "degraded"


async def test_degraded_service_may_still_be_ready(service: Service) -> None:
    service.health.stated = Readiness(ServiceState.DEGRADED, ("An agent is stuck.",))
    assert (await service.nobody.get("/readyz")).status == 200
    assert (await service.operator.get(STATUS)).body["service"]["reasons"] == ["An agent is stuck."]


async def test_status_before_the_first_measurement_has_no_facts(service: Service) -> None:
    body = (await service.operator.get(STATUS)).body
    assert body["sentence"] == "The service is ready. 0 of 100 run slots are taken."
    assert body["versions"] == {"python": python_version(), "postgresql": None, "schema": None}
    assert (body["ended_nodes"], [node["agents"] for node in body["nodes"]]) == ([], [0])
    assert (body["phases"], body["oldest_uncleared_high"], body["forgotten"]) == ({}, None, [])


async def test_status_names_versions_phases_and_what_needs_a_person(service: Service, api: Api) -> None:
    agent = await api.create_agent(name="Rosa", status="running")
    await api.create_agent()
    await api.create_notification(agent, priority="high")
    now = datetime.now(UTC)
    await service.storage.service_facts.refresh(now)
    service.health.stuck = {UUID(agent["id"]): now}
    service.health.stated = Readiness(ServiceState.DEGRADED, ("The beat is late.",))
    body = (await service.operator.get(STATUS)).body
    assert body["sentence"] == "The service has a problem. 1 of 100 run slots is taken."
    assert body["versions"]["schema"] > 0
    assert [node["agents"] for node in body["nodes"]] == [1]
    assert body["phases"] == {"running": 1, "asleep": 1}
    oldest = body["oldest_uncleared_high"]
    assert (oldest["agent"], oldest["name"]) == (agent["id"], "Rosa")
    assert body["forgotten"][0]["agent"] == agent["id"]
    assert body["failing_webhooks"] == 0


async def test_status_of_a_single_node_describes_it(service: Service, api: Api) -> None:
    await api.create_agent(status="running")
    body = (await service.operator.get(STATUS)).body
    [node] = body["nodes"]
    assert (node["id"], node["name"], node["version"], node["state"]) == (1, "web/1", "0.2.0", "alive")
    assert (node["runs"], node["free_slots"], node["queued"], node["url"]) == (1, 99, 0, "http://node")
    assert (node["confirmed_seconds"], node["lag_ms"], body["service"]["node"]) == (0, None, 1)


async def test_status_sums_up_the_nodes_and_shows_the_worst_lag(service: Service, api: Api) -> None:
    await api.create_agent(status="running")
    other = NodeNumbers(
        runs=RunsResponse(2, 3, 7),
        supervisors=SupervisorsResponse(4, {"running": 2}, MailboxesResponse(5, 4), 1, 0),
        lag_ms=Spread(1, 2, 3),
        database=PoolSize(8, 1, 6),
    )
    _add_node(service, living_node(2, **other.publish()))
    body = (await service.operator.get(STATUS)).body
    assert body["runs"] == {"running": 3, "queued": 3, "limit": 107}
    assert (body["agents"]["running"], body["supervisors"]["by_phase"]) == (3, {"running": 3})
    assert body["supervisors"]["mailbox"] == {"depth": 5, "deepest": 4}
    assert (body["supervisors"]["restarts"], body["supervisors"]["active"]) == (1, 5)
    assert body["loop_lag_ms"] == {"p50": 1, "p99": 2, "max": 3}
    assert (body["database"]["waiting"], body["database"]["connections"] > 8) == (6, True)
    assert [(node["name"], node["runs"], node["lag_ms"]) for node in body["nodes"]] == [
        ("web/1", 1, None),
        ("web/2", 2, 2),
    ]


async def test_node_that_has_told_nothing_yet_counts_as_idle(service: Service) -> None:
    _add_node(service, living_node(2))
    body = (await service.operator.get(STATUS)).body
    assert body["runs"] == {"running": 0, "queued": 0, "limit": 100}
    assert (body["nodes"][1]["free_slots"], body["nodes"][1]["lag_ms"]) == (0, None)


def _add_node(service: Service, node: Node) -> None:
    nodes = service.app[NODES]
    assert isinstance(nodes, LoneNode)
    nodes.nodes[node.id] = node


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
