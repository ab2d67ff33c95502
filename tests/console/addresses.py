"""Every address of the console, for tests that visit all screens."""

import re
from dataclasses import dataclass

from playwright.async_api import Page, expect

from tests.console.visits import PAINTED
from tests.paths import ROOT

SCREENS = ROOT / "web" / "static" / "console" / "app" / "screens.js"
PATTERN = re.compile(r'pattern: "([^"]+)"')


@dataclass(frozen=True)
class Address:
    """An address of a screen; names in braces stand for the ids of an organization's resources."""

    path: str
    pattern: str
    is_for_operators: bool = False

    def fill_in(self, ids: dict[str, str]) -> str:
        return self.path.format(**ids)


AGENT_TABS = (
    *("queue", "schedules", "runs", "conversation", "documents", "usage", "settings"),
    *("what-if", "rewind"),
)
ADDRESSES = (
    Address("/", "/"),
    Address("/agents", "/agents"),
    Address("/runs", "/runs"),
    Address("/approvals", "/approvals/:id?"),
    Address("/approvals?tab=grants", "/approvals/:id?"),
    Address("/approvals/{approval}", "/approvals/:id?"),
    Address("/messages", "/messages"),
    Address("/contacts", "/contacts/:id?"),
    Address("/contacts/{contact}", "/contacts/:id?"),
    Address("/queue", "/queue"),
    Address("/usage", "/usage"),
    Address("/templates", "/templates/:id?"),
    Address("/templates/{template}", "/templates/:id?"),
    Address("/templates/{template}/prompts?version=1", "/templates/:id/prompts"),
    Address("/agents/{agent}/prompts?version=1", "/agents/:id/prompts"),
    Address("/tools", "/tools/:id?"),
    Address("/tools/{adapter}", "/tools/:id?"),
    Address("/webhooks", "/webhooks/:id?"),
    Address("/webhooks/{webhook}", "/webhooks/:id?"),
    Address("/hooks", "/hooks/:id?"),
    Address("/hooks/{hook}", "/hooks/:id?"),
    Address("/people", "/people"),
    Address("/start?template={template}&agent={agent}", "/start"),
    Address("/agents/{agent}/runs/{run}", "/agents/:id/runs/:run"),
    Address("/traces/{trace}", "/traces/:run"),
    Address("/agents/{agent}", "/agents/:id/:tab?"),
    *(Address(f"/agents/{{agent}}/{tab}", "/agents/:id/:tab?") for tab in AGENT_TABS),
    Address("/service", "/service/:id?", is_for_operators=True),
    Address("/service/{agent}", "/service/:id?", is_for_operators=True),
    Address("/sign-in", "/sign-in"),
    Address("/sign-up", "/sign-up"),
    Address("/reset", "/reset"),
    Address("/invites/{agent}", "/invites/:id"),
)


def patterns() -> list[str]:
    """Return the patterns that the console's own table of screens has."""
    return PATTERN.findall(SCREENS.read_text())


async def wait_until_ready(page: Page) -> None:
    """Wait until the screen has its heading, and nothing on it is loading."""
    await page.locator("main h1").first.wait_for()
    await expect(page.locator(".loading")).to_have_count(0)
    await page.evaluate(PAINTED)
