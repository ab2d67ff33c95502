"""The frame around all screens."""

from playwright.async_api import expect

from tests.console.addresses import wait_until_ready
from tests.console.visits import Console, Person, press

MAX_BYTES = 60 * 1024
MAX_REQUESTS = 30
# The page, its files and the answers of the API, as compressed.
LOADED = """
() => ["navigation", "resource"].flatMap(type => performance.getEntriesByType(type))
    .map(({name, encodedBodySize}) => [name, encodedBodySize])
"""


async def test_unknown_address_says_that_there_is_no_page(console: Console, person: Person) -> None:
    page = await console.open("/nowhere/at/all", person)
    await expect(page.get_by_role("heading", name="There is no such page")).to_be_visible()
    await expect(page.get_by_role("button", name="live")).to_be_visible()


async def test_single_keys_can_be_switched_off(console: Console, person: Person) -> None:
    page = await console.open("/nowhere", person)
    await press(page, "?")
    await page.get_by_label("Single keys have an effect").uncheck()
    await press(page, "Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await press(page, "?")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await press(page, "Control+k")
    await expect(page.get_by_role("dialog", name="Go to")).to_be_visible()


async def test_pages_are_a_menu_on_a_telephone(console: Console, person: Person) -> None:
    page = await console.open("/nowhere", person, viewport={"width": 360, "height": 740})
    people = page.get_by_role("link", name="People and keys")
    await expect(people).not_to_be_visible()
    await page.get_by_role("button", name="Pages").click()
    await people.click()
    await expect(page.get_by_role("button", name="People and keys")).to_be_visible()
    await expect(people).not_to_be_visible()


async def test_link_to_what_is_shown_is_copied(console: Console, person: Person) -> None:
    page = await console.open("/people?tab=keys", person, permissions=["clipboard-read", "clipboard-write"])
    await press(page, "y")
    await expect(page.get_by_text("The link to what you see is copied.")).to_be_visible()
    assert await page.evaluate("navigator.clipboard.readText()") == f"{console.url}/console/people?tab=keys"


async def test_first_screen_loads_60_kb_in_30_requests_at_most(console: Console, person: Person) -> None:
    await person.client.create_agent()
    page = await console.open("/", person)
    await wait_until_ready(page)
    loaded: list[tuple[str, int]] = await page.evaluate(LOADED)
    assert MAX_BYTES / 2 < sum(size for _, size in loaded) <= MAX_BYTES, loaded
    assert len(loaded) <= MAX_REQUESTS, loaded
