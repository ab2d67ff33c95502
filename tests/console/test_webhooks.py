"""Webhooks: made with a secret that is shown once, tested, and watched while they deliver."""

import re

import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from storage.events.model import SHOWN_TYPES, patterns_of
from tests.acceptance.process import ServiceProcess
from tests.acceptance.services import Services
from tests.console.accessibility import violations
from tests.console.visits import Console, Person
from tests.paths import ROOT
from tests.receiver import answering, receiving

SOURCE = ROOT / "web" / "static" / "console" / "app" / "screens" / "webhooks" / "webhooks.js"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def console_service(browser: Browser, module_services: Services) -> ServiceProcess:
    """A service that may call receivers on this machine."""
    return await module_services.start(outbound={"allow_private": True})


def test_webhook_form_names_every_family_of_events() -> None:
    named = re.findall(r'"([a-z]+\.\*)"', SOURCE.read_text().partition("FAMILIES = ")[2].partition("]")[0])
    assert {*named} == {pattern for pattern in patterns_of(SHOWN_TYPES) if pattern.endswith("*")}


async def delivered(page: Page, type_: str) -> None:
    """Wait until the page shows that an event was delivered; it asks every few seconds."""
    row = page.get_by_role("row", name=re.compile(f"{type_} .*delivered"))
    await expect(row).to_be_visible()


async def test_webhook_is_created_tested_and_delivers_live(console: Console, person: Person) -> None:
    async with receiving() as receiver:
        page = await console.open("/webhooks/new", person)
        await page.get_by_label("Address", exact=True).fill(f"{receiver.url}/hook")
        await page.get_by_label("Events").fill("agent.created\nrun.*")
        await page.get_by_role("button", name="Create").click()
        secret = await page.get_by_role("dialog").locator("pre").inner_text()
        await page.get_by_role("button", name="I have stored it").click()
        await expect(page.get_by_role("heading", name=f"{receiver.url}/hook")).to_be_visible()
        assert secret not in await page.content()

        await page.get_by_role("button", name="Send a test").click()
        await delivered(page, "webhook.test")
        await person.client.create_agent(name="Clerk")
        await delivered(page, "agent.created")
        assert [each.verified_by(secret)["type"] for each in receiver.requests] == [
            "webhook.test",
            "agent.created",
        ]
        await page.get_by_role("button", name="agent.created").click()
        await expect(page.get_by_role("dialog").get_by_text("agent.created").first).to_be_visible()


async def test_failed_delivery_is_found_and_sent_again(console: Console, person: Person) -> None:
    async with receiving() as receiver:
        receiver.answer = answering(410)
        webhook = await person.client.post(
            "/api/organizations/webhooks/", url=receiver.url, types=["agent.*"]
        )
        page = await console.open(f"/webhooks/{webhook['id']}", person)
        await person.client.create_agent()
        await page.get_by_role("button", name="failed", exact=True).click()
        row = page.get_by_role("row", name=re.compile("agent.created"))
        await expect(row).to_contain_text("410")
        await expect(page.get_by_text("failing since")).to_be_visible()
        await expect(page).to_have_url(re.compile(r"\?status=failed$"))
        assert await violations(page) == []

        receiver.answer = None
        await row.get_by_role("button", name="Send again").click()
        await expect(page.get_by_role("heading", name="There are no such deliveries")).to_be_visible()
        await receiver.wait_for(2)
