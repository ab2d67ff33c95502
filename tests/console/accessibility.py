"""The accessibility of a page, judged by axe-core."""

from typing import Any

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page


async def violations(page: Page, only: str | None = None) -> list[str]:
    """Return a line for each element that breaks a rule of axe-core, or the one rule, with what to mend."""
    options: dict[str, Any] = {"resultTypes": ["violations"]}
    if only is not None:
        options["runOnly"] = [only]
    results = await Axe().run(page, options=options)
    return [
        f"{rule['id']}: {node['html'][:200]}: {node['failureSummary']}"
        for rule in results.response["violations"]
        for node in rule["nodes"]
    ]
