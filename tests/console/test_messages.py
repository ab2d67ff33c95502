"""The messages of all agents: those that were not sent come first, and are sent again or dismissed."""

from contextlib import suppress

import pytest_asyncio
from playwright.async_api import Browser, expect

from tests.acceptance.client import Refused
from tests.acceptance.process import ServiceProcess
from tests.acceptance.services import Services
from tests.console.visits import Console, Person, press
from tests.receiver import Receiver, answering, receiving


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def console_service(browser: Browser, module_services: Services) -> ServiceProcess:
    """A service that may call a gateway on this machine."""
    return await module_services.start(outbound={"allow_private": True})


async def write_to(person: Person, gateway: Receiver, *names: str) -> None:
    """Have an agent write to contacts with these names by the gateway."""
    client = person.client
    adapter = await client.post("/api/toolbox/adapters/", name="Gateway")
    tool = {"adapter": adapter["id"], "name": "send", "handler": "channel:sms", "url": gateway.url}
    await client.post("/api/toolbox/tools/", **tool)
    agent = await client.create_agent(name="Rosa", adapters=[adapter["id"]])
    for number, name in enumerate(names):
        contact = await client.post("/api/defaults/contacts/", name=name, phone=f"+43123456{number}")
        call = {"contact_id": contact["id"], "body": f"We open at nine, {name}."}
        with suppress(Refused):  # what the gateway refuses is kept as failed
            await client.post(f"/api/cloud/agents/{agent}/tools/send_sms/", **call)


async def test_failed_messages_are_dismissed_and_sent_again(console: Console, person: Person) -> None:
    async with receiving() as gateway:
        gateway.answer = answering(500, "down", Content_Type="text/plain")
        await write_to(person, gateway, "Ann", "Ben", "Cleo")
        page = await console.open("/", person)
        items = page.get_by_role("listitem").filter(has=page.get_by_text("not sent", exact=True))
        await expect(items).to_have_count(3)
        await items.filter(has_text="Ben").get_by_role("button", name="Dismiss").click()
        await expect(items).to_have_count(2)
        await items.first.get_by_role("button", name="Send again").click()
        await expect(page.get_by_text("1 not done: ")).to_contain_text("The tool answered 500: down")

        await page.goto(f"{console.url}/console/messages")
        failed = page.get_by_role("region", name="Not sent").get_by_role("listitem")
        await expect(failed).to_contain_text(["We open at nine, Cleo.", "We open at nine, Ann."])
        gateway.answer = answering(200)
        await press(page, "j", "s")
        await expect(failed).to_have_count(1)
        await expect(page.get_by_text("1 message sent again.")).to_be_visible()
        await press(page, "k", "d")
        await expect(failed).to_have_count(0)
        rows = page.get_by_role("list", name="Messages").get_by_role("listitem")
        await expect(rows.filter(has_text="Cleo").get_by_text("sent", exact=True)).to_be_visible()
        await expect(rows.get_by_text("not sent", exact=True)).to_have_count(2)


async def test_all_failed_messages_are_sent_again_at_once(console: Console, person: Person) -> None:
    async with receiving() as gateway:
        gateway.answer = answering(500, "down", Content_Type="text/plain")
        await write_to(person, gateway, "Ann", "Ben", "Cleo")
        page = await console.open("/messages", person)
        gateway.answer = answering(200)
        await page.get_by_role("button", name="Send all again").click()
        await page.get_by_role("group").get_by_role("button", name="Send all again").click()
        await expect(page.get_by_text("3 messages sent again.")).to_be_visible()
        await expect(page.get_by_role("region", name="Not sent")).to_have_count(0)
        rows = page.get_by_role("list", name="Messages").get_by_role("listitem")
        await expect(rows.get_by_text("sent", exact=True)).to_have_count(3)
