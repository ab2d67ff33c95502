"""Adapters, their configurations in forms made from schemas, and secrets."""

from typing import Any

from playwright.async_api import expect

from tests.console.accessibility import violations
from tests.console.visits import Console, Person

SCHEMA = {
    "type": "object",
    "title": "Connection",
    "required": ["address", "contact"],
    "properties": {
        "address": {"type": "string", "title": "Address of the system", "minLength": 5},
        "key": {"type": "string", "title": "Key", "format": "password"},
        "rooms": {"type": "integer", "title": "Rooms", "maximum": 400, "default": 12},
        "plan": {"enum": ["basic", "pro", 3], "title": "Plan"},
        "dry": {"type": "boolean", "title": "Dry run"},
        "languages": {"type": "array", "items": {"type": "string"}, "title": "Languages"},
        "contact": {
            "type": "object",
            "title": "Contact",
            "properties": {"email": {"type": "string", "title": "E-mail"}},
        },
    },
}


async def prepare(person: Person, schema: dict[str, Any]) -> str:
    """Create an adapter and a template; return the address of the template's configuration of it."""
    adapter = await person.client.post("/api/toolbox/adapters/", name="Booking", config_schema=schema)
    template = await person.client.post("/api/templates/", name="Desk")
    return f"/tools/{adapter['id']}?template={template['id']}"


async def test_form_of_a_schema_stores_values_by_type(console: Console, person: Person) -> None:
    console.allow_refusals(400)
    page = await console.open(await prepare(person, SCHEMA), person)
    create = page.get_by_role("button", name="Create configuration")
    await expect(page.get_by_label("Rooms")).to_have_value("12")
    await expect(page.get_by_label("Key")).to_have_attribute("type", "password")
    await create.click()
    address = page.get_by_label("Address of the system *")
    await expect(address).to_have_accessible_description("This field is required.")

    await address.fill("a")
    await page.get_by_label("Rooms").fill("500")
    await create.click()
    await expect(address).to_have_accessible_description('"a" is shorter than 5 characters')
    await expect(page.get_by_label("Rooms")).to_have_accessible_description(
        "at most 400 500 is greater than the maximum of 400"
    )

    await expect(page.get_by_role("alert")).to_have_count(0)
    await address.fill("https://example.org")
    await page.get_by_label("Rooms").fill("40")
    await page.get_by_label("Plan").select_option("3")
    await page.get_by_label("Dry run").check()
    await page.get_by_label("Languages").fill("German\nEnglish, of Britain")
    await page.get_by_label("E-mail").fill("desk@example.org")
    await page.get_by_label("Headers with secrets").fill("Authorization: CRM_KEY")
    await create.click()
    await expect(page.get_by_text("Saved. Tool calls use it at once.")).to_be_visible()
    [config] = await person.client.get("/api/toolbox/adapter-configs/")
    assert config["config"] == {
        "address": "https://example.org",
        "rooms": 40,
        "plan": 3,
        "dry": True,
        "languages": ["German", "English, of Britain"],
        "contact": {"email": "desk@example.org"},
    }
    assert config["secret_headers"] == {"Authorization": "CRM_KEY"}
    await expect(page.get_by_role("button", name="Save")).to_be_visible()
    assert await violations(page) == []


async def test_form_takes_no_method_for_a_stored_value(console: Console, person: Person) -> None:
    names = ("constructor", "toString", "__proto__")
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}}
    page = await console.open(await prepare(person, schema), person)
    for name in names:
        await expect(page.get_by_label(name)).to_have_value("")
    await page.get_by_role("button", name="Create configuration").click()
    await expect(page.get_by_role("button", name="Save")).to_be_visible()
    for name in names:
        await expect(page.get_by_label(name)).to_have_value("")


async def test_schema_beyond_forms_is_filled_in_as_json(console: Console, person: Person) -> None:
    schema = {"oneOf": [{"type": "object", "required": ["a"]}, {"type": "array"}]}
    page = await console.open(await prepare(person, schema), person)
    field = page.get_by_label("Configuration", exact=True)
    await field.fill('{"a": }')
    await page.get_by_role("button", name="Create configuration").click()
    await expect(page.get_by_text("This is not JSON.")).to_be_visible()
    await field.fill('["b"]')
    await page.get_by_role("button", name="Create configuration").click()
    await expect(page.get_by_role("button", name="Save")).to_be_visible()
    [config] = await person.client.get("/api/toolbox/adapter-configs/")
    assert config["config"] == ["b"]


async def test_tool_is_added_to_an_adapter(console: Console, person: Person) -> None:
    adapter = await person.client.post("/api/toolbox/adapters/", name="Booking")
    page = await console.open(f"/tools/{adapter['id']}", person)
    await page.get_by_role("button", name="New tool").click()
    await page.get_by_label("Name", exact=True).fill("list_rooms")
    await page.get_by_label("Parameters").fill('{"type": "object"}')
    await page.get_by_role("button", name="Create").click()
    await expect(page.get_by_role("button", name="list_rooms")).to_be_visible()
    [tool] = await person.client.get("/api/toolbox/tools/")
    assert (tool["name"], tool["parameters"]) == ("list_rooms", {"type": "object"})


async def test_secret_is_written_but_never_shown(console: Console, person: Person) -> None:
    page = await console.open("/tools?tab=secrets", person)
    await page.get_by_role("button", name="New secret").click()
    await page.get_by_label("Name", exact=True).fill("CRM_KEY")
    await page.get_by_label("Value").fill("a value that nobody reads")
    await page.get_by_role("button", name="Store").click()
    await expect(page.get_by_role("cell", name="CRM_KEY", exact=True)).to_be_visible()
    assert "nobody reads" not in await page.content()
    [secret] = await person.client.get("/api/organizations/secrets/")
    assert secret["name"] == "CRM_KEY"
