"""The metrics for Prometheus."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from prometheus_client.core import Metric
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families as from_text

from storage.ids import new_id
from tests.web.conftest import Api, Service
from web.app import ROUTES
from web.observability.requests import BUCKET_SECONDS
from web.ports import Readiness, ServiceState

pytestmark = pytest.mark.one_node  # each node counts what it has answered

METRICS = "/metrics"
NOTIFICATIONS = "/api/defaults/notifications/"
ONE_AGENT = "/api/cloud/agents/{id}/"
REQUESTS = "hostsvc_http_requests_total"
DURATION = "hostsvc_http_request_duration_seconds"


def from_openmetrics(text: str) -> Iterable[Metric]:
    families: Iterable[Metric] = openmetrics.text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
    return families


class Scraped:
    """The samples of one response, by name and labels."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self.families = list(families)
        self._values = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in self.families
            for sample in family.samples
        }

    def value(self, name: str, **labels: str) -> float | None:
        """None if there is no such sample."""
        return self._values.get((name, frozenset(labels.items())))

    def series(self, name: str) -> list[dict[str, str]]:
        return [dict(labels) for each, labels in self._values if each == name]


async def scrape(service: Service) -> Scraped:
    answer = await service.operator.get(METRICS)
    assert answer.status == 200, answer
    return Scraped(from_text(answer.body))


async def test_requests_are_counted_by_method_route_and_status(service: Service, api: Api) -> None:
    agent = await api.create_agent()
    for _ in range(3):
        assert (await api.get(f"/api/cloud/agents/{agent['id']}/")).status == 200
    assert (await api.get(f"/api/cloud/agents/{new_id()}/")).status == 404
    assert (await service.nobody.get("/api/cloud/agents/7/")).status == 401
    assert (await api.request("HEAD", f"/api/cloud/agents/{agent['id']}/")).status == 200

    seen = await scrape(service)
    assert seen.value(REQUESTS, method="POST", route="/api/cloud/agents/", status="201") == 1
    for status, number in (("200", 3), ("404", 1), ("401", 1)):
        assert seen.value(REQUESTS, method="GET", route=ONE_AGENT, status=status) == number, status
    assert seen.value(REQUESTS, method="HEAD", route=ONE_AGENT, status="200") == 1


async def test_usage_metrics_have_a_bounded_number_of_labels(
    service: Service, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.history.usage.MAX_SPENDERS", 2)
    agent = await api.create_agent()
    for number in range(4):
        used = {"model": f"lab/{number}", "input_tokens": 10, "output_tokens": 1, "cost_usd": 0.5}
        await api.post(f"/api/cloud/agents/{agent['id']}/usage/", used)

    seen = await scrape(service)

    first = {"organization": agent["organization"], "model": "lab/0"}
    assert seen.value("hostsvc_model_tokens_total", **first, kind="input") == 10
    assert seen.value("hostsvc_model_cost_usd_total", **first) == 0.5
    assert seen.value("hostsvc_model_cost_usd_total", organization="other", model="other") == 1
    assert len(seen.series("hostsvc_model_cost_usd_total")) == 3


async def test_invented_models_hide_no_other_organization(
    service: Service, api: Api, other: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.history.usage.MAX_SPENDERS", 4)
    monkeypatch.setattr("storage.history.usage.MAX_MODELS_IN_METRICS", 2)
    inventor, honest = await api.create_agent(), await other.create_agent()
    for client, agent, models in ((api, inventor, range(9)), (other, honest, range(1))):
        for number in models:
            used = {"model": f"lab/{number}", "input_tokens": 10, "output_tokens": 1, "cost_usd": 0.5}
            await client.post(f"/api/cloud/agents/{agent['id']}/usage/", used)

    seen = await scrape(service)

    costs = "hostsvc_model_cost_usd_total"
    assert seen.value(costs, organization=honest["organization"], model="lab/0") == 0.5
    assert seen.value(costs, organization=inventor["organization"], model="other") == 3.5


async def test_errors_of_tools_and_failed_messages_are_counted(service: Service, api: Api) -> None:
    agent = await api.create_agent()
    ann = await api.create("/api/defaults/contacts/", phone="+43123456")
    call = {"contact_id": ann["id"], "body": "Hello"}
    await api.post(f"/api/cloud/agents/{agent['id']}/tools/send_sms/", call)

    seen = await scrape(service)

    assert seen.value("hostsvc_tool_errors_total", tool="send_sms") == 1
    assert seen.value("hostsvc_messages_failed_total", channel="sms") == 1
    assert seen.value("hostsvc_webhook_deliveries", state="pending") == 0
    assert seen.value("hostsvc_oldest_webhook_delivery_seconds") == 0


async def test_unknown_paths_share_one_series(service: Service) -> None:
    for path in ("/nothing/1/", "/nothing/2/"):
        assert (await service.nobody.get(path)).status == 404
    assert (await service.nobody.request("PROPFIND", "/nothing/")).status == 404
    assert (await service.nobody.request("PROPFIND", "/healthz")).status == 405
    assert (await service.nobody.get("/api/cloud/agents")).status == 308
    seen = await scrape(service)
    assert {(series["route"], series["status"]) for series in seen.series(REQUESTS)} == {
        ("*", "308"),
        ("*", "404"),
        ("/healthz", "405"),
    }
    assert seen.value(REQUESTS, method="*", route="*", status="404") == 3


async def test_request_labels_come_from_route_table(service: Service, api: Api) -> None:
    for route in ROUTES:
        await api.request(route.method, route.path.replace("{", "").replace("}", ""))
    routes = {(route.method, route.path) for route in ROUTES}
    series = (await scrape(service)).series(f"{DURATION}_count")
    assert {(each["method"], each["route"]) for each in series} == routes


async def test_durations_are_a_histogram_over_all_statuses(service: Service, api: Api) -> None:
    agent = await api.create_agent()
    for title in ("Hello", "Hello", ""):
        await api.post(NOTIFICATIONS, {"agent": agent["id"], "title": title})
    labels = {"method": "POST", "route": NOTIFICATIONS}
    seen = await scrape(service)
    buckets = [seen.value(f"{DURATION}_bucket", le=str(le), **labels) for le in (*BUCKET_SECONDS, "+Inf")]
    assert buckets == sorted(buckets, key=lambda number: number or 0)
    assert buckets[-1] == seen.value(f"{DURATION}_count", **labels) == 3
    assert 0 < (seen.value(f"{DURATION}_sum", **labels) or 0) < 3 * BUCKET_SECONDS[-1]


async def test_stored_notifications_are_counted_by_source(service: Service, api: Api) -> None:
    agent = await api.create_agent(debounce_window_seconds=3600)
    for body in ({"source": "sms"}, {"source": "sms", "priority": "low"}, {"source": "portal"}):
        await api.create_notification(agent, **body)
    lost = {"agent": str(new_id()), "title": "Lost", "source": "sms"}
    assert (await api.post(NOTIFICATIONS, lost)).status == 400
    await api.create(
        "/api/defaults/messages/", agent=agent["id"], channel="email", direction="inbound", body="Hello"
    )
    seen = await scrape(service)
    sources = ("sms", "portal", "email", "browser")
    created = {source: seen.value("hostsvc_notifications_created_total", source=source) for source in sources}
    assert created == {"sms": 2, "portal": 1, "email": 1, "browser": 0}


async def test_runs_are_counted_by_start_and_outcome(service: Service, api: Api) -> None:
    agent, _ = await api.create_agent(status="running"), await api.create_agent(status="running")
    seen = await scrape(service)
    assert seen.value("hostsvc_runs_started_total") == 2
    assert seen.value("hostsvc_runs", state="running") == 2
    assert seen.value("hostsvc_supervisors", phase="running") == 2
    assert seen.value("hostsvc_runs_ended_total", outcome="stopped") == 0

    stopped = await api.post(f"/api/cloud/agents/{agent['id']}/stop/")
    assert stopped.status == 200, stopped
    await service.registry.wait_until_idle()
    seen = await scrape(service)
    assert seen.value("hostsvc_runs_started_total") == 2
    assert seen.value("hostsvc_runs", state="running") == 1
    assert seen.value("hostsvc_runs_ended_total", outcome="stopped") == 1
    assert seen.value("hostsvc_runs_ended_total", outcome="slept") == 0


async def test_metrics_agree_with_status(service: Service, api: Api) -> None:
    await api.create_notification(
        await api.create_agent(debounce_window_seconds=3600), source="sms", priority="high"
    )
    await service.registry.wait_until_idle()
    status: Any = (await service.operator.get("/status/")).body
    seen = await scrape(service)
    assert seen.value("hostsvc_info", version=status["service"]["version"]) == 1
    assert seen.value("hostsvc_supervisors", phase="holding") == 1
    assert seen.value("hostsvc_quarantined_agents") == status["supervisors"]["quarantined"] == 0
    assert seen.value("hostsvc_supervisor_restarts_total") == status["supervisors"]["restarts"]
    assert seen.value("hostsvc_mailbox_depth") == status["supervisors"]["mailbox"]["depth"]
    assert seen.value("hostsvc_mailbox_depth_max") == status["supervisors"]["mailbox"]["deepest"]
    assert seen.value("hostsvc_runs_limit") == status["runs"]["limit"]
    assert seen.value("hostsvc_timers_pending") == status["timers"]["pending"]
    held = status["agents"].pop("held_by_limits")
    assert seen.value("hostsvc_agents_held_by_limits") == held == 0
    for status_of_agents, number in status["agents"].items():
        assert seen.value("hostsvc_agents", status=status_of_agents) == number
    connections = [seen.value("hostsvc_database_connections", state=state) for state in ("idle", "used")]
    assert connections[0] == status["database"]["idle"]
    assert sum(number or 0 for number in connections) == status["database"]["connections"]
    assert seen.value("hostsvc_database_waiting") == status["database"]["waiting"]
    assert seen.value("hostsvc_oldest_uncleared_high_seconds") == 0
    assert seen.value("process_resident_memory_bytes")


@pytest.mark.parametrize("state", ServiceState)
async def test_current_state_is_one_and_others_zero(service: Service, state: ServiceState) -> None:
    service.health.stated = Readiness(state, ("Because.",))
    seen = await scrape(service)
    states = {each: seen.value("hostsvc_state", state=each) for each in ServiceState}
    assert states == {each: each is state for each in ServiceState}


@pytest.mark.parametrize("can_write", [True, False])
async def test_outage_of_the_database_shows(service: Service, can_write: bool) -> None:
    service.health.stated = Readiness(ServiceState.DEGRADED, ("Because.",), can_write=can_write)
    assert (await scrape(service)).value("hostsvc_database_writable") == can_write


async def test_tasks_of_the_loop_are_counted(service: Service) -> None:
    before = (await scrape(service)).value("hostsvc_tasks") or 0
    forever = asyncio.Event()
    waiting = [asyncio.create_task(forever.wait()) for _ in range(20)]
    during = (await scrape(service)).value("hostsvc_tasks") or 0
    forever.set()
    await asyncio.gather(*waiting)
    assert during - before == pytest.approx(20, abs=5)  # requests and the pool come and go


async def test_metric_names_follow_conventions(service: Service, api: Api) -> None:
    answer = await service.operator.get(METRICS, headers={"Accept": "application/openmetrics-text"})
    for family in from_openmetrics(answer.body):
        assert family.name.startswith(("hostsvc", "process_")), family.name
        assert family.documentation.endswith("."), family.name
