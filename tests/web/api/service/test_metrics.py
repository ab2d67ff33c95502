"""The metrics endpoint: its formats, and who may read it."""

from collections.abc import Iterable
from uuid import UUID

import pytest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families as from_text

from storage.node_counters import NodeCounters
from storage.postgres.pool import Pool
from supervisors.engine.snapshot import RunsResponse, Spread
from tests.nodes import LoneNode, living_node
from tests.web.conftest import Api, Service, StartService
from web.app_keys import NODES
from web.node_numbers import NodeNumbers
from web.observability.counter_sums import counters_of
from web.ports import Readiness, ServiceState

pytestmark = pytest.mark.one_node  # the other nodes are made up

METRICS = "/metrics"
CREATED = "hostsvc_notifications_created_total source=api"
INSERT_NODE = """
INSERT INTO node (id, life, name, version, protocol, roles) OVERRIDING SYSTEM VALUE
VALUES ($1, $2, '', '', 1, '{}')
"""


def from_openmetrics(text: str) -> Iterable[Metric]:
    families: Iterable[Metric] = openmetrics.text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
    return families


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        (None, "text/plain; version=0.0.4; charset=utf-8"),
        ("*/*", "text/plain; version=0.0.4; charset=utf-8"),
        (
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.2",
            "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=allow-utf-8",
        ),
        ("text/plain;version=1.0.0", "text/plain; version=1.0.0; charset=utf-8; escaping=underscores"),
        ("application/openmetrics-text;version=2\u00fc", "text/plain; version=0.0.4; charset=utf-8"),
        ("application/openmetrics-text;version=x", "text/plain; version=0.0.4; charset=utf-8"),
        ("application/openmetrics-text;version=99.0.0", "text/plain; version=0.0.4; charset=utf-8"),
    ],
)
async def test_metrics_come_in_the_requested_format(
    service: Service, accept: str | None, content_type: str
) -> None:
    answer = await service.operator.get(METRICS, headers={"Accept": accept} if accept else {})
    assert (answer.status, answer.headers["Content-Type"]) == (200, content_type)
    parse = from_openmetrics if content_type.startswith("application/openmetrics") else from_text
    states = {
        sample.labels["state"]: sample.value
        for family in parse(answer.body)
        for sample in family.samples
        if sample.name == "hostsvc_state"
    }
    assert states["ready"] == 1


def samples_of(text: str) -> dict[str, float]:
    """Return the values by name and labels."""
    return {
        sample.name + "".join(f" {name}={value}" for name, value in sample.labels.items()): sample.value
        for family in from_text(text)
        for sample in family.samples
    }


async def test_metrics_of_a_single_node_are_complete(service: Service) -> None:
    await service.operator.get("/status/")
    samples = samples_of((await service.operator.get(METRICS)).body)
    assert samples["hostsvc_nodes state=alive"] == 1
    assert samples["hostsvc_node_confirmed_seconds"] == 0
    assert samples["hostsvc_http_requests_total method=GET route=/status/ status=200"] == 1
    assert samples["hostsvc_http_request_duration_seconds_count method=GET route=/status/"] == 1
    assert samples["process_cpu_seconds_total"] > 0


async def test_metrics_are_sums_over_nodes_and_tell_one_on_request(
    service: Service, api: Api, pool: Pool
) -> None:
    running = await api.create_agent(status="running")
    await api.create_notification(running)
    await _store_node(pool, 1)  # the row of the service itself
    other = living_node(
        2, **NodeNumbers(runs=RunsResponse(2, 0, 10), lag_ms=Spread(1000, 2000, 3000)).publish()
    )
    _nodes(service).nodes[2] = other
    latency = HistogramMetricFamily("hostsvc_wake_latency_seconds", "", labels=("reason",))
    latency.add_metric(("reminder",), [("2.5", 1), ("10.0", 2), ("+Inf", 3)], sum_value=70.5)
    await _store_node(pool, 2, _created("api", 4), _created("sms", 1), latency)

    text = (await service.operator.get(METRICS)).body
    samples = samples_of(text)
    assert [line for line in text.splitlines() if 'reason="reminder"' in line] == [
        'hostsvc_wake_latency_seconds_bucket{le="2.5",reason="reminder"} 1.0',
        'hostsvc_wake_latency_seconds_bucket{le="10.0",reason="reminder"} 2.0',
        'hostsvc_wake_latency_seconds_bucket{le="+Inf",reason="reminder"} 3.0',
        'hostsvc_wake_latency_seconds_count{reason="reminder"} 3.0',
        'hostsvc_wake_latency_seconds_sum{reason="reminder"} 70.5',
    ]
    assert (samples["hostsvc_runs state=running"], samples["hostsvc_runs_limit"]) == (3, 110)
    assert (samples[CREATED], samples["hostsvc_notifications_created_total source=sms"]) == (5, 1)
    assert not [name for name in samples if name.startswith("process_")]
    assert "quantile=" not in text, "promtool refuses it for gauges"

    own = samples_of((await service.operator.get(f"{METRICS}?scope=node")).body)
    assert (own["hostsvc_runs state=running"], own[CREATED]) == (1, 1)
    assert own["process_cpu_seconds_total"] > 0


async def test_counters_do_not_fall_when_their_node_ends(start_service: StartService, pool: Pool) -> None:
    first = await start_service()
    await _store_node(pool, 1)
    api = await first.new_organization()
    await api.create_notification(await api.create_agent())
    assert samples_of((await first.operator.get(METRICS)).body)[CREATED] == 1

    await pool.execute("UPDATE node SET state = 'dead', ended_at = now()")
    second = await start_service()
    nodes = _nodes(second)
    nodes.node_id, nodes.life, nodes.nodes = 2, UUID(int=2), {2: living_node(2)}
    await _store_node(pool, 2)
    assert samples_of((await second.operator.get(METRICS)).body)[CREATED] == 1
    assert samples_of((await second.operator.get(f"{METRICS}?scope=node")).body).get(CREATED, 0) == 0


async def test_metrics_of_an_outage_are_those_read_last(service: Service, pool: Pool) -> None:
    await _store_node(pool, 2, _created("api", 4))
    assert samples_of((await service.operator.get(METRICS)).body)[CREATED] == 4
    service.health.stated = Readiness(ServiceState.DEGRADED, ("It is full.",), can_write=False)
    await _store_node(pool, 3, _created("api", 5))
    assert samples_of((await service.operator.get(METRICS)).body)[CREATED] == 4


def _nodes(service: Service) -> LoneNode:
    nodes = service.app[NODES]
    assert isinstance(nodes, LoneNode)
    return nodes


def _created(source: str, count: int) -> Metric:
    family = CounterMetricFamily("hostsvc_notifications_created", "", labels=("source",))
    family.add_metric((source,), count)
    return family


async def _store_node(pool: Pool, node_id: int, *counted: Metric) -> None:
    life = UUID(int=node_id)
    await pool.execute(INSERT_NODE, node_id, life)
    await NodeCounters(pool).publish(node_id, life, counters_of(counted))


async def test_open_metrics_need_no_token_and_open_nothing_else(start_service: StartService) -> None:
    service = await start_service(open_metrics=True)
    for client in (service.nobody, service.nobody.with_authorization("Bearer nonsense")):
        assert (await client.get(METRICS)).status == 200
        assert (await client.get("/status/")).status == 401
