"""What Prometheus reads of the whole service."""

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from tests.acceptance.client import eventually, sign_up
from tests.acceptance.services import Services


async def test_a_run_is_seen_by_a_scraper_that_needs_no_token_where_metrics_are_open(
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
        async with session.get(f"{service.url}/metrics") as answer:
            families = text_string_to_metric_families(await answer.text())
        seen = {
            " ".join((sample.name, *sample.labels.values())): sample.value
            for family in families
            for sample in family.samples
        }
        still = seen["hostsvc_runs running"] or seen["hostsvc_oldest_uncleared_high_seconds"]
        return seen if seen["hostsvc_agents sleeping"] and not still else None

    seen = await eventually(scrape, "the agent to be counted asleep, with nothing to do")
    assert seen["hostsvc_state ready"] == 1
    assert seen["hostsvc_runs_started_total"] == seen["hostsvc_runs_ended_total slept"] == 1
    assert seen["hostsvc_notifications_created_total api"] == 1
    assert seen["hostsvc_http_requests_total POST /api/defaults/notifications/ 201"] == 1
