"""What is true of every screen: accessibility, a reload that shows the same, and room on a telephone."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import suppress

import aiohttp
import pytest
import pytest_asyncio
from playwright.async_api import Page, ViewportSize

from tests.acceptance.process import ServiceProcess
from tests.console.accessibility import violations
from tests.console.addresses import ADDRESSES, wait_until_ready
from tests.console.conftest import sign_up
from tests.console.hostile_organization import Organization, fill
from tests.console.visits import PAINTED, Console, Person
from tests.patience import PATIENCE_SECONDS

PASSING = re.compile(r"\d+(\.\d+)?|(?<=\d) (ms|s|min|h|d)\b|\b(now|in|ago)\b|live|connecting")  # time passes
PHONE: ViewportSize = {"width": 360, "height": 740}
DESKTOP: ViewportSize = {"width": 1280, "height": 900}
# The elements that reach beyond the window, if the page scrolls sideways.
TOO_WIDE = """
() => document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll("body *")]
    .filter(element => element.getBoundingClientRect().right > innerWidth)
    .map(element => element.outerHTML.slice(0, 150))
"""


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
    found = await violations(page)
    before = await words_of(page)
    await page.reload()
    found += [f"not after a reload: {line}" for line in await missing_lines(page, before)]
    await page.set_viewport_size(PHONE)
    await page.evaluate(PAINTED)
    found += [f"wider than a telephone: {element}" for element in await page.evaluate(TOO_WIDE)]
    await page.set_viewport_size(DESKTOP)
    return found


async def missing_lines(page: Page, expected: set[str]) -> set[str]:
    """Return the lines of a page that it does not show again within a minute of its reload."""
    missing = expected
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE_SECONDS):
            while missing := expected ^ await words_of(page):
                await page.evaluate(PAINTED)
    return missing


async def words_of(page: Page) -> set[str]:
    """Return the lines on the page, without times, which go on."""
    await wait_until_ready(page)
    lines = PASSING.sub("", await page.locator("main").inner_text()).splitlines()
    return {" ".join(line.split()) for line in lines}
