"""The messages of an agent by contact, and its documents with their versions."""

import aiohttp
from playwright.async_api import Page, expect

from tests.console.accessibility import violations
from tests.console.visits import Console, Person

DOCUMENTS = "/api/defaults/documents/"
OLD, NEW = (
    "# Mary\n\n- waits for a parcel\n- prefers texts\n",
    "# Mary\n\n- got her parcel\n- prefers texts\n",
)


async def talk(person: Person, agent: str) -> None:
    """Store a conversation with Mary and one with Joe."""
    contacts = "/api/defaults/contacts/"
    mary = await person.client.post(contacts, agent=agent, name="Mary", phone="+442079460000")
    joe = await person.client.post(contacts, name="Joe", email="joe@example.org")
    texts = {
        "Where is my parcel?": {"contact": mary["id"], "channel": "sms", "direction": "inbound"},
        "word " * 900: {"contact": joe["id"], "channel": "email", "direction": "inbound", "subject": "Long"},
        "It is on the van.": {"contact": mary["id"], "channel": "sms", "direction": "outbound"},
    }
    for body, fields in texts.items():
        await person.client.post("/api/defaults/messages/", agent=agent, body=body, **fields)
    form = aiohttp.FormData({"agent": agent, "contact": mary["id"], "channel": "mms", "direction": "inbound"})
    form.add_field("files", b"a photo", filename="box.txt", content_type="text/plain")
    await person.client.upload("/api/defaults/messages/", form)


async def open_conversation(console: Console, person: Person) -> Page:
    agent = await person.client.create_agent(name="Grace")
    await talk(person, agent)
    return await console.open(f"/agents/{agent}/conversation", person)


async def test_thread_shows_both_sides_and_downloads_files(console: Console, person: Person) -> None:
    page = await open_conversation(console, person)
    messages = page.get_by_label("Messages").get_by_role("listitem")
    await expect(messages).to_have_count(3)
    await expect(messages.nth(0)).to_contain_text("Where is my parcel?")
    await expect(messages.nth(1)).to_contain_text("out by SMS")

    async with page.expect_download() as started:
        await page.get_by_role("button", name="box.txt").click()
    assert (await (await started.value).path()).read_bytes() == b"a photo"

    await page.get_by_role("navigation", name="Contacts").get_by_role("button", name="Joe").click()
    await expect(messages).to_have_count(1)
    await expect(page.get_by_role("button", name="of 4,500 characters")).to_be_visible()
    await page.reload()
    await expect(messages.first).to_contain_text("Long")


async def test_contact_of_thread_is_changed_and_found(console: Console, person: Person) -> None:
    page = await open_conversation(console, person)
    await page.get_by_role("link", name="Edit contact").click()
    await page.get_by_label("Name").fill("Mary Okafor")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("heading", name="Mary Okafor")).to_be_visible()
    await page.get_by_role("link", name="Contacts").click()
    await expect(page.get_by_role("link", name="Joe")).to_be_visible()
    for part in ("020 7946", "okaf"):
        await page.get_by_label("Search by name, number or e-mail").fill(part)
        await expect(page.get_by_role("row")).to_have_count(2)  # the headings, and what was found
        await expect(page.get_by_role("link", name="Mary Okafor")).to_be_visible()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Mary Okafor")).to_be_visible()


async def test_document_is_compared_and_reverted(console: Console, person: Person) -> None:
    agent = await person.client.create_agent(name="Grace")
    document = {"agent": agent, "title": "Mary", "path": "/memories/people/mary.md", "content": OLD}
    made = await person.client.post(DOCUMENTS, **document)
    await person.client.patch(f"{DOCUMENTS}{made['id']}/", content=NEW)
    page = await console.open(f"/agents/{agent}/documents", person)
    await page.get_by_role("button", name="mary.md").click()
    await expect(page.get_by_label("Text")).to_contain_text("got her parcel")
    await page.locator(".documents-versions button").first.click()
    await expect(page.locator(".documents-removed")).to_have_text("-- waits for a parcel")
    await expect(page.locator(".documents-added")).to_have_text("+- got her parcel")
    assert await violations(page) == []

    await page.locator(".documents-versions button").last.click()
    await page.get_by_role("button", name="Revert to version 1").click()
    await page.get_by_role("group").get_by_role("button", name="Revert to version 1").click()
    await expect(page.get_by_label("Text")).to_contain_text("waits for a parcel")

    await page.get_by_label("Search documents").fill("parcel")
    await page.get_by_role("button", name="Search", exact=True).click()
    await expect(page.get_by_role("navigation", name="Documents")).to_contain_text("mary.md")
