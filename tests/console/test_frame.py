"""The frame around all screens."""

from playwright.async_api import expect

from tests.console.accessibility import violations
from tests.console.addresses import wait_until_ready
from tests.console.visits import Console, Person

MAX_SCRIPT_BYTES = 60 * 1024
SCRIPT_BYTES = """
() => Object.fromEntries(performance.getEntriesByType("resource")
    .filter(({name}) => name.endsWith(".js"))
    .map(({name, encodedBodySize}) => [name, encodedBodySize]))
"""


async def test_unknown_address_says_that_there_is_no_page(console: Console, person: Person) -> None:
    page = await console.open("/nowhere/at/all", person)
    await expect(page.get_by_role("heading", name="There is no such page")).to_be_visible()
    await expect(page.get_by_role("button", name="live")).to_be_visible()


async def test_single_keys_can_be_switched_off(console: Console, person: Person) -> None:
    page = await console.open("/nowhere", person)
    await page.keyboard.press("?")
    await page.get_by_label("Single keys have an effect").uncheck()
    await page.keyboard.press("Escape")
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await page.keyboard.press("Control+k")
    await expect(page.get_by_role("dialog", name="Go to")).to_be_visible()


async def test_link_to_what_is_shown_is_copied(console: Console, person: Person) -> None:
    page = await console.open("/people?tab=keys", person, permissions=["clipboard-read", "clipboard-write"])
    await page.keyboard.press("y")
    await expect(page.get_by_text("The link to what you see is copied.")).to_be_visible()
    assert await page.evaluate("navigator.clipboard.readText()") == f"{console.url}/console/people?tab=keys"


async def test_frame_is_accessible(console: Console, person: Person) -> None:
    page = await console.open("/nowhere", person)
    assert await violations(page) == []


async def test_first_page_loads_at_most_60_kb_of_scripts(console: Console, person: Person) -> None:
    page = await console.open("/", person)
    await wait_until_ready(page)
    sizes: dict[str, int] = await page.evaluate(SCRIPT_BYTES)
    assert len(sizes) > 20
    assert 0 < sum(sizes.values()) <= MAX_SCRIPT_BYTES, sizes
