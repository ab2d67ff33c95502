"""The settings of an agent: inherited and own values, the effect of a change, and refusals by field."""

import re

from playwright.async_api import Page, expect

from tests.console.visits import Console, Person

WINDOW = "Debounce window, in seconds"


async def open_settings(console: Console, person: Person) -> tuple[Page, str]:
    """Open the settings of an agent whose template has a window of 60 s and a cap of 5 USD."""
    template = await person.client.post(
        "/api/templates/", name="Clerk", debounce_window_seconds=60, max_cost_usd_per_day=5
    )
    agent = await person.client.create_agent(name="Grace", template=template["id"])
    return await console.open(f"/agents/{agent}/settings", person), agent


async def test_change_shows_its_effect_before_it_is_saved(console: Console, person: Person) -> None:
    page, agent = await open_settings(console, person)
    window, effect = page.get_by_label(WINDOW), page.get_by_label("Effect of the change")
    await expect(window).to_have_attribute("placeholder", "60")
    await expect(page.get_by_text("inherited from the template").first).to_be_visible()

    await window.fill("5")
    await expect(effect).to_contain_text("If a text came now")
    await expect(effect).to_contain_text(
        re.compile("As it is.* it wakes 60 s after .*With the change.* it wakes 5 s after ")
    )
    await expect(page.get_by_text("overrides the template: 60")).to_be_visible()
    assert (await person.client.agent(agent))["debounce_window_seconds"] is None

    await page.get_by_role("button", name="Save changes").click()
    await expect(page.get_by_text("Saved.")).to_be_visible()
    await expect(window).to_have_value("5")
    assert (await person.client.agent(agent))["debounce_window_seconds"] == 5


async def test_own_value_is_reset_to_the_template(console: Console, person: Person) -> None:
    page, agent = await open_settings(console, person)
    await page.get_by_label("Cap in US dollars a day").fill("9")
    await page.get_by_label("Turns of a run").fill("3")
    await page.get_by_role("button", name="Save changes").click()
    await page.get_by_role("button", name="Dismiss").click()
    await expect(page.get_by_text("Saved.")).to_have_count(0)
    await expect(page.get_by_text("overrides the template: 5")).to_be_visible()

    await page.get_by_role("button", name="Inherit Cap in US dollars a day").click()
    await page.get_by_role("button", name="Save changes").click()
    await expect(page.get_by_text("Saved.")).to_be_visible()
    await expect(page.get_by_text("overrides the template: 5")).to_have_count(0)
    saved = await person.client.agent(agent)
    assert (saved["max_cost_usd_per_day"], saved["max_turns"]) == (None, 3)

    await page.get_by_role("button", name="Undo").click()
    await expect(page.get_by_label("Cap in US dollars a day")).to_have_value("9")


async def test_typed_value_survives_a_change_by_somebody_else(console: Console, person: Person) -> None:
    page, agent = await open_settings(console, person)
    await page.get_by_label(WINDOW).fill("7")
    others = {"tags": ["vip, very"], "name": "Ada", "system_prompt": "Be brief.\r\nBe kind."}
    await person.client.patch(f"/api/cloud/agents/{agent}/", **others)
    await expect(page.get_by_role("heading", name="Ada")).to_be_visible()
    await expect(page.get_by_label(WINDOW)).to_have_value("7")

    await expect(page.get_by_label("Name", exact=True)).to_have_value("Ada")
    await page.get_by_role("button", name="Save changes").click()
    await expect(page.get_by_text("Saved.")).to_be_visible()
    saved = await person.client.agent(agent)
    assert {name: saved[name] for name in others} == others
    assert saved["debounce_window_seconds"] == 7


async def test_refused_value_is_explained_at_its_field(console: Console, person: Person) -> None:
    console.allow_refusals(400)
    page, _ = await open_settings(console, person)
    zone = page.get_by_label("Time zone", exact=True)
    await zone.fill("Mars/Base")
    await page.get_by_label("Name", exact=True).fill("Still typed")
    await page.get_by_role("button", name="Save changes").click()

    await expect(zone).to_have_attribute("aria-invalid", "true")
    await expect(page.locator(".settings .field .error")).to_have_text('"Mars/Base" is not a valid choice.')
    await expect(page.get_by_label("Name", exact=True)).to_have_value("Still typed")
