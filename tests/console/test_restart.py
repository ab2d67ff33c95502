"""The console while the service is killed and starts again."""

import aiohttp
from playwright.async_api import expect

from tests.acceptance.process import ServiceProcess
from tests.acceptance.services import Services
from tests.console.visits import Console, Person


async def test_page_goes_on_after_kill_with_nothing_missing_or_doubled(
    console: Console,
    person: Person,
    http: aiohttp.ClientSession,
    module_services: Services,
    console_service: ServiceProcess,
) -> None:
    console.allow_lost_connections()
    console.allow_refusals(503)
    client = person.client
    template = await client.post("/api/templates/", name="Desk", debounce_window_seconds=1)
    agent = await client.create_agent(template=template["id"])
    page = await console.open(f"/start?template={template['id']}&agent={agent}", person)
    now = await console.open("/", person)
    await expect(now.get_by_text("The service is ready.")).to_be_visible()
    rows = (
        page.get_by_role("region", name="What it does, and why")
        .get_by_role("list")
        .first.get_by_role("listitem")
    )
    await client.notify(agent, "before the kill", source="sms")
    await expect(rows).to_have_count(4)
    await expect(page.get_by_role("button", name="live", exact=True)).to_be_visible()

    await console_service.kill()
    await expect(page.get_by_role("button", name="reconnecting, as of")).to_be_visible()
    await expect(now.get_by_text("The service does not answer. This is how it was at")).to_be_visible()
    await expect(now.get_by_text("The service is ready.")).to_have_count(0)
    await expect(now.get_by_role("heading", name="Nothing needs a person")).to_have_count(0)
    port = int(console.url.rpartition(":")[2])
    await module_services.start(server={"port": port})
    await client.notify(agent, "after the restart", source="sms")

    await expect(page.get_by_role("button", name="live", exact=True)).to_be_visible()
    await expect(rows).to_have_count(8)
    shown = await rows.all_inner_texts()
    assert [shown.index(each) for each in shown] == list(range(8))
    assert sum("before the kill" in each for each in shown) == 1
    assert sum("after the restart" in each for each in shown) == 1
    assert [each.split("\n")[1] for each in shown] == ["text", "holding", "running", "asleep"] * 2
