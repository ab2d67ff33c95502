"""The main job in the console by the keyboard alone, from the sign-up to an agent that sleeps again."""

from uuid import uuid4

import pytest
from playwright.async_api import Page, expect

from tests.console.visits import Console
from tests.leaks import PASSWORD


@pytest.mark.everyday
async def test_keyboard_leads_from_sign_up_to_an_agent_that_woke(console: Console) -> None:
    page = await console.open("/")
    await page.evaluate("window.isSameDocument = true")
    await expect(page.get_by_label("E-mail")).to_be_focused()
    await press_tab_to(page, "Create an account")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Create an account")).to_be_visible()
    await expect(page.get_by_label("E-mail")).to_be_focused()
    await fill_by_keyboard(page, f"{uuid4().hex}@example.org", PASSWORD, "Ada", "Example")

    await expect(page.get_by_label("Name")).to_be_focused()
    await press_tab_to(page, "Wait for a pause of … seconds")
    await page.keyboard.press("Control+a")
    await page.keyboard.type("2")
    await page.keyboard.press("Enter")
    await expect(page.get_by_label("Name")).to_have_value("Grace")
    await expect(page.get_by_label("Name")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.get_by_label("Text")).to_be_focused()
    await page.keyboard.press("Enter")

    happenings = page.get_by_role("region", name="What it does, and why").get_by_role("list").first
    for row, words in enumerate(("Hello, are you there?", "Holding since", "Running since", "Asleep until")):
        await expect(happenings.get_by_role("listitem").nth(row)).to_contain_text(words)
    await expect(happenings.get_by_role("listitem")).to_have_count(4)
    assert await page.evaluate("window.isSameDocument")


async def press_tab_to(page: Page, name: str) -> None:
    """Press Tab until an element with this label or text has the focus."""
    focused = "(document.activeElement.labels?.[0] ?? document.activeElement).textContent.trim()"
    for _ in range(20):
        if await page.evaluate(focused) == name:
            return
        await page.keyboard.press("Tab")
    raise AssertionError(f"Tab does not lead to {name!r}")


async def fill_by_keyboard(page: Page, *values: str) -> None:
    """Type values into fields that follow each other, and press Enter in the last one."""
    for number, value in enumerate(values):
        if number:
            await page.keyboard.press("Tab")
        await page.keyboard.type(value)
    await page.keyboard.press("Enter")
