"""The accessibility of a page, judged by axe-core."""

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page


async def violations(page: Page) -> list[str]:
    """Return a line for each element that breaks a rule of axe-core, with what to mend."""
    results = await Axe().run(page)
    return [
        f"{rule['id']}: {node['html'][:200]}: {node['failureSummary']}"
        for rule in results.response["violations"]
        for node in rule["nodes"]
    ]
