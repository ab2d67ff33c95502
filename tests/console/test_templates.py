"""Templates: made, changed and deleted in the console."""

from playwright.async_api import expect

from tests.console.accessibility import violations
from tests.console.addresses import wait_until_ready
from tests.console.visits import Console, Person, press

TEMPLATES = "/api/templates/"


async def test_template_is_created_by_keyboard(console: Console, person: Person) -> None:
    page = await console.open("/templates", person)
    await expect(page.get_by_role("heading", name="There is no template yet")).to_be_visible()
    await press(page, "n")
    await expect(page.get_by_label("Name", exact=True)).to_be_focused()
    await page.keyboard.type("Desk")
    await page.keyboard.press("Tab")
    await page.keyboard.type("builtin/inbox")
    await page.get_by_label("Secrets for the harness").fill("CRM_KEY\nOTHER_KEY")
    await page.get_by_role("button", name="Create").press("Enter")
    await expect(page.get_by_role("heading", name="Desk", level=1)).to_be_visible()
    [template] = await person.client.get(TEMPLATES)
    assert (template["name"], template["default_model"]) == ("Desk", "builtin/inbox")
    assert template["environment_secrets"] == ["CRM_KEY", "OTHER_KEY"]
    await wait_until_ready(page)
    assert await violations(page) == []

    await page.get_by_role("button", name="Save").blur()
    await press(page, "u")
    row = page.get_by_role("row", name="Desk")
    await expect(row).to_be_visible()
    await press(page, "j")
    await expect(row).to_have_attribute("aria-current", "true")
    await press(page, "Enter")
    await expect(page.get_by_label("Model", exact=True)).to_have_value("builtin/inbox")


async def test_prompt_of_a_run_is_compared_and_reverted(console: Console, person: Person) -> None:
    template = await person.client.post(TEMPLATES, name="Desk", system_prompt="Be kind.\nBe slow.")
    path = f"{TEMPLATES}{template['id']}/"
    await person.client.patch(path, system_prompt="Be kind.\nBe quick.")
    agent = await person.client.create_agent(name="Clerk", template=template["id"])
    await person.client.notify(agent, "Tea?")
    run = await person.client.ended_run(agent)
    await person.client.patch(path, system_prompt="Be gone.")

    page = await console.open(f"/agents/{agent}/runs/{run['id']}", person)
    await page.get_by_role("link", name="version 2 of the prompt of its template").click()
    await expect(page.locator(".documents-removed")).to_have_text("-Be slow.")
    await expect(page.locator(".documents-added")).to_have_text("+Be quick.")
    await expect(page.locator(".documents-versions button")).to_contain_text(["a person"] * 3)
    assert await violations(page) == []
    await page.get_by_role("button", name="Revert to version 2").focus()
    await page.keyboard.press("Enter")
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await expect(page.get_by_label("Text", exact=True)).to_contain_text("Be quick.")
    await expect(page.locator(".documents-versions button")).to_have_count(4)
    assert (await person.client.get(path))["system_prompt"] == "Be kind.\nBe quick."

    await page.goto(f"{console.url}/console/agents/{agent}/settings")
    await page.get_by_role("link", name="Versions").click()
    await page.get_by_role("link", name="that of its template").click()
    await page.get_by_role("link", name="Change it").click()
    await page.get_by_role("link", name="Versions of the prompt").click()
    await expect(page.get_by_role("heading", name="Prompt of Desk")).to_be_visible()


async def test_form_changes_only_the_edited_fields(console: Console, person: Person) -> None:
    template = await person.client.post(TEMPLATES, name="Desk", max_turns=3, tool_call_secret="signing")
    path = f"{TEMPLATES}{template['id']}/"
    page = await console.open(f"/templates/{template['id']}", person)
    await page.get_by_label("Turns of a run").fill("9")
    await person.client.patch(path, description="by somebody else")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_text("Saved.")).to_be_visible()
    changed = await person.client.get(path)
    assert changed == {**template, "max_turns": 9, "description": "by somebody else"}


async def test_refused_field_of_template_keeps_what_was_typed(console: Console, person: Person) -> None:
    console.allow_refusals(400)
    template = await person.client.post(TEMPLATES, name="Desk")
    page = await console.open(f"/templates/{template['id']}", person)
    await page.get_by_label("Address told of new agents").fill("not an address")
    await page.get_by_role("button", name="Save").click()
    field = page.get_by_label("Address told of new agents")
    await expect(field).to_have_accessible_description(
        "Gets a signed request for each. Blank: none. Enter a valid URL."
    )
    await expect(field).to_have_value("not an address")


async def test_template_in_use_is_deleted_by_detaching(console: Console, person: Person) -> None:
    template = await person.client.post(TEMPLATES, name="Desk", system_prompt="Be kind.")
    agent = await person.client.create_agent(name="Clerk", template=template["id"])
    page = await console.open(f"/templates/{template['id']}", person)
    await expect(page.get_by_role("link", name="Clerk")).to_have_attribute("href", f"/console/agents/{agent}")
    await page.get_by_role("button", name="Detach and delete").click()
    await page.get_by_role("group").get_by_role("button", name="Detach and delete").click()
    await expect(page.get_by_role("heading", name="There is no template yet")).to_be_visible()
    kept = await person.client.agent(agent)
    assert (kept["template"], kept["system_prompt"]) == (None, "Be kind.")
