"""What is true of every screen: accessibility, a reload that shows the same, and room on a telephone."""

import re
from collections.abc import AsyncIterator

import aiohttp
import pytest
import pytest_asyncio
from playwright.async_api import Page, ViewportSize

from tests.acceptance.process import ServiceProcess
from tests.console.accessibility import violations
from tests.console.addresses import ADDRESSES, wait_until_ready
from tests.console.conftest import sign_up
from tests.console.hostile_organization import Organization, fill
from tests.console.visits import Console, Person

PASSING = re.compile(r"\d+(\.\d+)?|(?<=\d) (ms|s|min|h|d)\b|\b(now|in|ago)\b|live|connecting")  # time passes
PHONE: ViewportSize = {"width": 360, "height": 740}
DESKTOP: ViewportSize = {"width": 1280, "height": 900}
TOO_WIDE = "document.documentElement.scrollWidth > innerWidth"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def organization(console_service: ServiceProcess) -> AsyncIterator[Organization]:
    """A person whose organization has something of everything, with long texts and odd characters."""
    async with aiohttp.ClientSession() as http:
        person = await sign_up(http, console_service.url)
        yield person, await fill(person, lines=2)


@pytest.mark.parametrize("is_for_operators", [False, True], ids=["person", "operator"])
async def test_every_screen_is_accessible_stable_and_narrow(
    console: Console, organization: Organization, operator: Person, is_for_operators: bool
) -> None:
    person, ids = organization
    console.allow_refusals(404)  # of what is deleted
    page = await console.open("/nowhere", operator if is_for_operators else person, viewport=DESKTOP)
    problems = {}
    for address in ADDRESSES:
        if address.is_for_operators is is_for_operators:
            problems[address.path] = await problems_at(page, f"{console.url}/console{address.fill_in(ids)}")
    assert {path: found for path, found in problems.items() if found} == {}


async def problems_at(page: Page, url: str) -> list[str]:
    """Return what is wrong with the screen at an address."""
    await page.goto(url)
    await wait_until_ready(page)
    before = await words_of(page)
    found = await violations(page)
    await page.reload()
    await wait_until_ready(page)
    if await words_of(page) != before:
        found.append("a reload shows something else")
    await page.emulate_media(color_scheme="dark")
    found += [f"dark: {each}" for each in await violations(page)]
    await page.emulate_media(color_scheme="light")
    await page.set_viewport_size(PHONE)
    if await page.evaluate(TOO_WIDE):
        found.append("wider than a telephone")
    await page.set_viewport_size(DESKTOP)
    return found


async def words_of(page: Page) -> str:
    """Return the words on the page, without times, which go on."""
    return PASSING.sub("", await page.locator("main").inner_text())
