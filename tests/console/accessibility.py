"""The accessibility of a page, judged by axe-core."""

from typing import Any

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page

ALL: dict[str, Any] = {"resultTypes": ["violations"]}
COLOURS = {**ALL, "runOnly": ["color-contrast"]}  # only colours differ in the dark


async def violations(page: Page) -> list[str]:
    """Return a line for each element that breaks a rule of axe-core in light or dark, with what to mend."""
    found = await _judge(page, ALL)
    await page.emulate_media(color_scheme="dark")
    found += [f"dark: {each}" for each in await _judge(page, COLOURS)]
    await page.emulate_media(color_scheme="light")
    return found


async def _judge(page: Page, options: dict[str, Any]) -> list[str]:
    results = await Axe().run(page, options=options)
    return [
        f"{rule['id']}: {node['html'][:200]}: {node['failureSummary']}"
        for rule in results.response["violations"]
        for node in rule["nodes"]
    ]
