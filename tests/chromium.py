"""A real browser without a window: Chromium, driven by playwright."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import Browser, Page, async_playwright

# The shell is Chromium without its own windows, toolbars and menus, which cost a third of the processor time.
PATHS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking")
MISSING = "needs Chromium: install it (apt-get install chromium-headless-shell), or Google Chrome"


@asynccontextmanager
async def browser() -> AsyncIterator[Browser]:
    """Run a browser while the block lasts; skip the test if there is none."""
    path = next(filter(None, map(shutil.which, PATHS)), None)
    if path is None:
        pytest.skip(MISSING)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=FLAGS)
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def chromium() -> AsyncIterator[Page]:
    """Yield a blank page of a browser of its own; skip the test if there is no browser."""
    async with browser() as running:
        yield await running.new_page()
