"""Hostile text in every field that a tenant can write is text on every screen, and nothing else."""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest_asyncio
from playwright.async_api import Page

from tests.acceptance.process import ServiceProcess
from tests.console.addresses import ADDRESSES, patterns, wait_until_ready
from tests.console.conftest import sign_up
from tests.console.hostile_organization import LINES, Organization, fill
from tests.console.hostile_strings import STRINGS
from tests.console.visits import Console, Person

# The elements that the console is made of; an element of another kind could only come from a text.
ELEMENTS = frozenset(
    """
    HTML HEAD META TITLE LINK BODY NOSCRIPT SCRIPT MAIN HEADER NAV SECTION ARTICLE ASIDE FOOTER DIV SPAN P
    H1 H2 H3 UL OL LI DL DT DD A BUTTON FORM FIELDSET LEGEND LABEL INPUT TEXTAREA SELECT OPTION OPTGROUP
    SMALL STRONG EM B I CODE PRE KBD BDI TIME TABLE CAPTION THEAD TBODY TFOOT TR TH TD COLGROUP COL DIALOG
    DETAILS SUMMARY FIGURE FIGCAPTION OUTPUT PROGRESS METER DATALIST ABBR svg g path rect line circle text
    title desc defs polyline polygon tspan pattern clipPath linearGradient stop use marker
    """.split()  # noqa: SIM905 -- a list would be six times as long
)
INSPECT = """
() => {
    const found = [];
    const invisible = /[\\u061c\\u200b\\u200e\\u200f\\u202a-\\u202e\\u2060-\\u2069\\ufeff]/;
    const isWeb = address => /^https?:$/.test(new URL(address, location).protocol);
    const elements = [...document.querySelectorAll("*")];
    if (window.alive !== undefined) found.push("a script in a text has run");
    for (const element of elements) {
        const isInput = element.matches("input:not([type=checkbox]), textarea");
        for (const {name, value} of element.attributes) {
            if (name.startsWith("on")) found.push(`handler ${name}=${value}`);
            if (/^(.*href|src|.*action)$/.test(name) && !isWeb(value)) found.push(`link ${value}`);
        }
        for (const {nodeType, data} of isInput ? [] : element.childNodes) {
            if (nodeType !== Node.TEXT_NODE || !invisible.test(data)) continue;
            const part = JSON.stringify(data.slice(0, 80));
            found.push(`invisible characters in ${element.nodeName}.${element.className}: ${part}`);
        }
    }
    if (document.scripts.length !== 1) found.push(`${document.scripts.length} scripts`);
    return {found, names: [...new Set(elements.map(element => element.nodeName))]};
}
"""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def hostile_organization(console_service: ServiceProcess) -> AsyncIterator[Organization]:
    """A person whose organization is full of hostile text, and the ids of what is in it."""
    async with aiohttp.ClientSession() as http:
        person = await sign_up(http, console_service.url)
        ids = await fill(person)
        person.organization["name"] = person.session["user"]["name"] = LINES[0]
        yield person, ids


def test_strings_are_many_and_different() -> None:
    assert len(set(STRINGS)) == len(STRINGS) == 200


def test_addresses_cover_every_screen() -> None:
    assert {address.pattern for address in ADDRESSES} == set(patterns())


async def test_hostile_text_is_alive_on_no_screen(
    console: Console, hostile_organization: Organization, operator: Person
) -> None:
    person, ids = hostile_organization
    console.allow_refusals(404)  # of ids that are not those of an agent
    alive = {}
    for visitor, is_operator in ((person, False), (operator, True)):
        page = await console.open("/nowhere", visitor, viewport={"width": 1280, "height": 3000})
        for address in ADDRESSES:
            if address.is_for_operators is is_operator:
                alive[address.path] = await life_at(page, f"{console.url}/console{address.fill_in(ids)}")
        assert len(page.context.pages) == 1
    assert {path: found for path, found in alive.items() if found} == {}


async def life_at(page: Page, url: str) -> list[str]:
    """Return what on the page at an address is more than text."""
    await page.goto(url)
    await wait_until_ready(page)
    seen: dict[str, Any] = await page.evaluate(INSPECT)
    names = sorted(set(seen["names"]) - ELEMENTS)
    return [*seen["found"], *names, *([] if page.url == url else [f"moved to {page.url}"])]
