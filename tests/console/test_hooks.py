"""Hooks: made with a secret that is shown once, tested, and watched while deliveries come."""

import asyncio
import hmac
import re

from playwright.async_api import expect

from tests.acceptance.process import ServiceProcess
from tests.console.accessibility import violations
from tests.console.visits import Console, Person

PAYLOAD = '{"action": "opened", "pull_request": {"title": "Mend the roof"}}'


async def delivered(service: ServiceProcess, path: str, secret: str) -> str:
    """Deliver as GitHub does, by curl, and return what it prints."""
    signature = hmac.digest(secret.encode(), PAYLOAD.encode(), "sha256").hex()
    headers = (f"X-Hub-Signature-256: sha256={signature}", "X-GitHub-Delivery: 1")
    named = [part for header in headers for part in ("-H", header)]
    process = await asyncio.create_subprocess_exec(
        *("curl", "-s", *named, "--data-binary", PAYLOAD, f"{service.url}{path}"),
        "-H",
        "Content-Type: application/json",
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    return output.decode()


async def test_hook_is_created_tested_and_shows_deliveries_live(
    console: Console, person: Person, console_service: ServiceProcess
) -> None:
    agent = await person.client.create_agent(name="Reviewer")
    page = await console.open("/hooks/new", person)
    await page.get_by_label("Name", exact=True).fill("Pull requests")
    await page.get_by_label("Agent", exact=True).fill(agent)
    await page.get_by_label("Title").fill("{{ action }}: {{ pull_request.title }}")
    await page.get_by_label("Only if").fill('{"required": ["pull_request"]}')
    assert await violations(page) == []
    await page.get_by_role("button", name="Create").click()
    secret = await page.get_by_role("dialog").locator("pre").inner_text()
    await page.get_by_role("button", name="I have stored it").click()
    await expect(page.get_by_role("heading", name="Pull requests")).to_be_visible()
    assert secret not in await page.content()
    path = re.search(r"/hooks/[0-9a-f-]{36}/", await page.locator("dl.facts").inner_text())
    assert path is not None

    await page.get_by_role("button", name="Send a test").click()
    await page.get_by_role("button", name="Send", exact=True).click()
    await expect(page.get_by_role("dialog").get_by_text("ignored")).to_be_visible()
    await page.get_by_label("Payload").fill(PAYLOAD)
    await page.get_by_role("button", name="Send", exact=True).click()
    await expect(page.get_by_role("dialog").get_by_text("accepted")).to_be_visible()
    assert await violations(page) == []
    await page.keyboard.press("Escape")

    await expect(page.get_by_role("row", name=re.compile("accepted"))).to_have_count(1)
    assert await delivered(console_service, path[0], secret) == '{"outcome":"accepted"}'
    await expect(page.get_by_role("row", name=re.compile("accepted"))).to_have_count(2)
    assert "detail" in await delivered(console_service, path[0], "guessed")
    await expect(page.get_by_role("row", name=re.compile("refused.*signature is wrong"))).to_be_visible()


async def test_changed_hook_keeps_its_secret(console: Console, person: Person) -> None:
    agent = await person.client.create_agent(name="Reviewer")
    body = {"name": "Tracker", "agent": agent, "verify": "stripe", "title": "{{ type }}"}
    hook = await person.client.post("/api/organizations/hooks/", **body)
    page = await console.open(f"/hooks/{hook['id']}?tab=settings", person)
    await page.get_by_label("Title").fill("{{ type }}!")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_text("Saved.")).to_be_visible()
    changed = await person.client.get(f"/api/organizations/hooks/{hook['id']}/")
    assert changed == {
        **{name: value for name, value in hook.items() if name != "secret"},
        "title": "{{ type }}!",
        "updated_at": changed["updated_at"],
    }
