"""Templates: made, changed and deleted in the console."""

from playwright.async_api import expect

from tests.console.accessibility import violations
from tests.console.addresses import wait_until_ready
from tests.console.visits import Console, Person

TEMPLATES = "/api/templates/"


async def test_template_is_created_by_keyboard(console: Console, person: Person) -> None:
    page = await console.open("/templates", person)
    await expect(page.get_by_role("heading", name="There is no template yet")).to_be_visible()
    await page.keyboard.press("n")
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
    await page.keyboard.press("u")
    row = page.get_by_role("row", name="Desk")
    await expect(row).to_be_visible()
    await page.keyboard.press("j")
    await expect(row).to_have_attribute("aria-current", "true")
    await page.keyboard.press("Enter")
    await expect(page.get_by_label("Model", exact=True)).to_have_value("builtin/inbox")


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
