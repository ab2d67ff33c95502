"""The ways into the console and out of it."""

import sys
from asyncio import create_subprocess_exec
from asyncio.subprocess import PIPE
from uuid import uuid4

import pytest
from playwright.async_api import Page, expect

from tests.acceptance.services import OPERATOR_TOKEN, Services
from tests.console.visits import Console, Person
from tests.leaks import PASSWORD

NOWHERE = "There is no such page"
NEW_PASSWORD = "battery staple"


@pytest.mark.everyday
async def test_sign_in_leads_to_the_address_that_was_asked_for(console: Console, person: Person) -> None:
    page = await console.open("/nowhere?tag=vip")
    await expect(page.get_by_role("heading", name="Sign in to hostsvc")).to_be_visible()
    await sign_in(page, person.session["user"]["email"], PASSWORD)
    await expect(page.get_by_role("heading", name=NOWHERE)).to_be_visible()
    await expect(page).to_have_url(f"{console.url}/console/nowhere?tag=vip")


async def test_sign_in_leads_to_no_other_site(console: Console, person: Person) -> None:
    page = await console.open("/sign-in?next=%2F%2Fexample.org%2Fconsole%2F")
    await sign_in(page, person.session["user"]["email"], PASSWORD)
    await expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    await expect(page).to_have_url(f"{console.url}/console/")


async def test_wrong_password_is_a_sentence(console: Console, person: Person) -> None:
    console.allow_refusals(401)
    page = await console.open("/sign-in")
    await sign_in(page, person.session["user"]["email"], "not the password")
    await expect(page.get_by_role("alert")).to_have_text("Unable to log in with provided credentials.")
    await expect(page.get_by_label("E-mail")).to_have_value(person.session["user"]["email"])


async def test_operator_signs_in_with_the_token(console: Console) -> None:
    console.allow_refusals(401)
    page = await console.open("/nowhere")
    await page.get_by_role("link", name="Operator").click()
    await page.get_by_label("Operator's token").fill("something else")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("This is not the operator's token.")).to_be_visible()
    await page.get_by_label("Operator's token").fill(OPERATOR_TOKEN)
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name=NOWHERE)).to_be_visible()
    await expect(page.get_by_role("banner").get_by_text("Operator", exact=True)).to_be_visible()


async def test_expired_token_leads_to_sign_in_and_back(console: Console, person: Person) -> None:
    console.allow_refusals(401)
    page = await console.open("/start?template=", person)
    await expect(page.get_by_role("heading", name="First steps")).to_be_visible()
    assert await person.client.status_of("/api/organizations/auth/logout/", "POST") == 204
    await page.reload()
    await expect(page.get_by_role("heading", name="Sign in to hostsvc")).to_be_visible()
    await expect(page.get_by_text("Your session has ended.")).to_be_visible()
    await sign_in(page, person.session["user"]["email"], PASSWORD)
    await expect(page.get_by_role("heading", name="First steps")).to_be_visible()
    await expect(page).to_have_url(f"{console.url}/console/start?template=")


async def test_signing_out_revokes_the_token(console: Console, person: Person) -> None:
    page = await console.open("/nowhere", person)
    await page.get_by_role("button", name="Sign out").click()
    await expect(page.get_by_role("heading", name="Sign in to hostsvc")).to_be_visible()
    await expect(page.get_by_text("Your session has ended.")).to_be_hidden()
    assert await person.client.status_of("/api/organizations/auth/me/") == 401
    assert await page.evaluate("sessionStorage.getItem('hostsvc.session')") is None


async def test_refused_sign_up_names_the_field(console: Console, person: Person) -> None:
    console.allow_refusals(400)
    page = await console.open("/sign-up")
    await page.get_by_label("E-mail").fill(person.session["user"]["email"])
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_label("Organization").fill("Example")
    await page.get_by_role("button", name="Create account").click()
    await expect(page.get_by_label("E-mail")).to_have_accessible_description(
        "user with this email already exists."
    )


async def test_invited_person_joins_by_the_link(console: Console, person: Person) -> None:
    email = f"{uuid4().hex}@example.org"
    invite = await person.client.post("/api/organizations/invites/", email=email, role="member")
    page = await console.open(f"/invites/{invite['id']}#{invite['code']}")
    await expect(page.get_by_label("Code")).to_have_value(invite["code"])
    await page.get_by_label("Password").fill(NEW_PASSWORD)
    await page.get_by_role("button", name="Accept").click()
    await expect(page.get_by_role("banner").get_by_text("Example")).to_be_visible()
    await expect(page).to_have_url(f"{console.url}/console/")


async def test_signed_in_person_accepts_invite_without_password(
    console: Console, person: Person, other_person: Person
) -> None:
    email = other_person.session["user"]["email"]
    invite = await person.client.post("/api/organizations/invites/", email=email, role="member")
    page = await console.open(f"/invites/{invite['id']}#{invite['code']}", other_person)
    await page.get_by_role("button", name=f"Accept as {email}").click()
    organization = page.get_by_role("banner").get_by_label("Organization")
    await expect(organization.get_by_role("option")).to_have_count(2)
    await expect(organization).to_have_value(person.organization["id"])


async def test_forgotten_password_is_replaced_by_code(
    console: Console, person: Person, module_services: Services
) -> None:
    email = person.session["user"]["email"]
    page = await console.open("/sign-in")
    await page.get_by_role("link", name="Forgotten password").click()
    await page.get_by_label("E-mail").fill(email)
    await page.get_by_label("Code").fill(await reset_code(module_services, email))
    await page.get_by_label("New password").fill(NEW_PASSWORD)
    await page.get_by_role("button", name="Set password").click()
    await expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    await page.get_by_role("button", name="Sign out").click()
    await sign_in(page, email, NEW_PASSWORD)
    await expect(page.get_by_role("button", name="Sign out")).to_be_visible()


async def sign_in(page: Page, email: str, password: str) -> None:
    await page.get_by_label("E-mail").fill(email)
    await page.get_by_label("Password").fill(password)
    await page.get_by_role("button", name="Sign in").click()


async def reset_code(services: Services, email: str) -> str:
    """Return the code that the operator's command prints."""
    command = ("-m", "hostsvc", "accounts", "reset-password", email, "--config", "service-1.toml")
    process = await create_subprocess_exec(sys.executable, *command, cwd=services.directory, stdout=PIPE)
    output, _ = await process.communicate()
    return max(output.decode().split(), key=len)
