"""The metrics endpoint: its formats, and who may read it."""

from collections.abc import Iterable

import pytest
from prometheus_client.core import Metric
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families as from_text

from tests.web.conftest import Service, StartService

METRICS = "/metrics"


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


async def test_open_metrics_need_no_token_and_open_nothing_else(start_service: StartService) -> None:
    service = await start_service(open_metrics=True)
    for client in (service.nobody, service.nobody.with_authorization("Bearer nonsense")):
        assert (await client.get(METRICS)).status == 200
        assert (await client.get("/status/")).status == 401
