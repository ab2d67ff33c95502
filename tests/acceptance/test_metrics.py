"""The metrics of the whole service, as Prometheus reads them."""

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.acceptance.client import eventually, sign_up
from tests.acceptance.services import Services


@pytest.mark.everyday
async def test_open_metrics_count_a_run_without_a_token(
    services: Services, session: aiohttp.ClientSession
) -> None:
    service = await services.start(
        operator={"token": "operators-only", "open_metrics": True}, supervisors={"scan_interval_seconds": 0.2}
    )
    client = await sign_up(session, service.url)
    agent = await client.create_agent(debounce_window_seconds=0)
    await client.notify(agent)
    await client.ended_run(agent)

    async def scrape() -> dict[str, float] | None:
        async with session.get(f"{service.url}/metrics") as response:
            families = text_string_to_metric_families(await response.text())
        samples = {
            " ".join((sample.name, *sample.labels.values())): sample.value
            for family in families
            for sample in family.samples
        }
        is_busy = samples["hostsvc_runs running"] or samples["hostsvc_oldest_uncleared_high_seconds"]
        return samples if samples["hostsvc_agents sleeping"] and not is_busy else None

    samples = await eventually(scrape, "the agent to be counted asleep, with nothing to do")
    assert samples["hostsvc_state ready"] == 1
    assert samples["hostsvc_runs_started_total"] == samples["hostsvc_runs_ended_total slept"] == 1
    assert samples["hostsvc_notifications_created_total api"] == 1
    assert samples["hostsvc_http_requests_total POST /api/defaults/notifications/ 201"] == 1
