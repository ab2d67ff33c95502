"""People and keys: who may do what, and secrets that are shown once."""

import re
from typing import Any
from uuid import uuid4

import aiohttp
from playwright.async_api import expect

from tests.acceptance.client import Client
from tests.console.accessibility import violations
from tests.console.visits import Console, Person
from tests.leaks import PASSWORD

INVITES = "/api/organizations/invites/"


async def join(http: aiohttp.ClientSession, person: Person, role: str) -> Person:
    """Return a new person with a role in the organization of another one."""
    invite = await person.client.post(INVITES, email=f"{uuid4().hex}@example.org", role=role)
    anonymous = Client(http, person.client.url)
    account = await anonymous.post(f"{INVITES}{invite['id']}/accept/", code=invite["code"], password=PASSWORD)
    organization = {**account["organization"], "role": role}
    session: dict[str, Any] = {**person.session, **account, "organizations": [organization]}
    return Person(Client(http, person.client.url, f"Token {account['token']}"), session)


async def test_invite_is_a_link_that_is_shown_once(
    console: Console, person: Person, http: aiohttp.ClientSession
) -> None:
    page = await console.open("/people?tab=invites", person)
    await page.get_by_label("E-mail").fill("carol@example.org")
    await page.get_by_label("Role").select_option("admin")
    await page.get_by_role("button", name="Create invite").click()
    link = await page.get_by_role("dialog").locator("pre").inner_text()
    await page.get_by_role("button", name="I have stored it").click()
    await expect(page.get_by_role("row", name="carol@example.org admin")).to_be_visible()
    assert link not in await page.content()

    found = re.fullmatch(f"{console.url}/console/invites/([0-9a-f-]+)#(.+)", link)
    assert found is not None
    anonymous = Client(http, person.client.url)
    await anonymous.post(f"{INVITES}{found[1]}/accept/", code=found[2], password=PASSWORD)
    await page.get_by_role("link", name="Members").click()
    await expect(page.get_by_label("Role of carol@example.org")).to_have_value("admin")
    assert await violations(page) == []


async def test_key_is_shown_once_and_can_be_switched_off(
    console: Console, person: Person, http: aiohttp.ClientSession
) -> None:
    page = await console.open("/people?tab=keys", person)
    await page.get_by_label("Name").fill("Gateway")
    await page.get_by_role("button", name="Create API key").click()
    key = await page.get_by_role("dialog").locator("pre").inner_text()
    await page.get_by_role("button", name="I have stored it").click()
    program = Client(http, person.client.url, f"Bearer {key}")
    assert await program.status_of("/api/cloud/agents/") == 200
    assert key not in await page.content()

    await page.get_by_role("button", name="Switch off").click()
    await expect(page.get_by_role("button", name="Switch on")).to_be_visible()
    assert await program.status_of("/api/cloud/agents/") == 401


async def test_member_is_told_who_may_change_what(
    console: Console, person: Person, http: aiohttp.ClientSession
) -> None:
    member = await join(http, person, "member")
    page = await console.open("/people?tab=members", member)
    told = "Your role here is member: ask an admin or owner."
    for tab in ("Members", "Invites", "API keys", "Organization"):
        await page.get_by_role("link", name=tab).click()
        await expect(page.get_by_text(told)).to_be_visible()
    await expect(page.get_by_label("Name", exact=True)).to_be_disabled()
    for path in ("/webhooks", "/tools?tab=secrets"):
        page = await console.open(path, member)
        await expect(page.get_by_text(told)).to_be_visible()
    await page.goto(f"{console.url}/console/people?tab=keys")
    await expect(page.get_by_text("API keys are seen and created by admins and owners only.")).to_be_visible()


async def test_admin_may_not_change_an_owner(
    console: Console, person: Person, http: aiohttp.ClientSession
) -> None:
    admin = await join(http, person, "admin")
    page = await console.open("/people", admin)
    email = person.session["user"]["email"]
    row = page.get_by_role("row", name=email)
    await expect(row).to_be_visible()
    await expect(row.get_by_role("button")).to_have_count(0)
    await expect(page.get_by_label(f"Role of {email}")).to_have_count(0)


async def test_renamed_organization_and_new_password_take_effect(console: Console, person: Person) -> None:
    page = await console.open("/people?tab=organization", person)
    await page.get_by_label("Name", exact=True).fill("Renamed")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("banner").get_by_text("Renamed")).to_be_visible()

    await page.get_by_role("link", name="Your account").click()
    await page.get_by_label("Current password").fill(PASSWORD)
    await page.get_by_label("New password").fill("another horse")
    await page.get_by_role("button", name="Change password").click()
    await expect(page.get_by_text("The password is changed.")).to_be_visible()
    await page.get_by_role("link", name="Members").click()
    await expect(page.get_by_text(person.session["user"]["email"])).to_be_visible()
    assert await person.client.status_of("/api/organizations/auth/me/") == 401


async def test_person_without_organization_can_create_one(
    console: Console, person: Person, http: aiohttp.ClientSession
) -> None:
    member = await join(http, person, "member")
    email = member.session["user"]["email"]
    [membership] = [
        each
        for each in await person.client.get("/api/organizations/memberships/")
        if each["user"]["email"] == email
    ]
    await person.client.status_of(f"/api/organizations/memberships/{membership['id']}/", "DELETE")
    alone = Person(member.client, {**member.session, "organizations": [], "organization": None})
    page = await console.open("/people?tab=members", alone)
    await page.get_by_label("A further organization").fill("Mine")
    await page.get_by_role("button", name="Create organization").click()
    await expect(page.get_by_role("banner").get_by_text("Mine")).to_be_visible()
    await page.get_by_role("link", name="Members").click()
    await expect(page.get_by_label(f"Role of {email}")).to_have_value("owner")


async def test_limits_are_those_of_the_chosen_organization(console: Console, person: Person) -> None:
    await person.client.create_agent()
    second = await person.client.post("/api/organizations/organizations/", name="Second")
    places = [*person.session["organizations"], {**second, "role": "owner"}]
    both = Person(person.client, {**person.session, "organizations": places})
    page = await console.open("/people?tab=organization", both)
    row = page.get_by_role("row", name=re.compile("^agents organization"))
    await expect(row).to_contain_text("1100,000")
    await page.get_by_label("Organization", exact=True).select_option("Second")
    await expect(page.get_by_label("Name", exact=True)).to_have_value("Second")
    await expect(row).to_contain_text("0100,000")
