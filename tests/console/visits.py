"""Visits to the console in a real browser, each of which must pass without a complaint of the browser."""

import json
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Dialog, Page, Request

from tests.acceptance.client import Client
from tests.patience import PATIENCE_SECONDS
from web.app import ROUTES

SESSION = "hostsvc.session"
# Only in the first page of a tab, so that signing out stays possible. Other tests have used the profile, too.
BEGIN = """
if (!sessionStorage.getItem("opened by the test")) {
    sessionStorage.setItem("opened by the test", "yes");
    localStorage.clear();
    for (const [key, value] of Object.entries(%s)) sessionStorage.setItem(key, value);
}
"""
# The frame is shown before the module of its screen is loaded.
SCREEN = "main:not(:has(> .loading))"
# Components bind keys after the browser has painted them.
PAINTED = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))"
DEFAULT_TIMEOUT_MS = 1000 * PATIENCE_SECONDS
REFUSED = "Failed to load resource"  # how Chromium logs an answer that is an error
PATTERNS = {
    (route.method, re.compile(re.sub(r"\\{[^}]*\\}", "[^/]+", re.escape(route.path)))) for route in ROUTES
}


@dataclass(frozen=True)
class Person:
    """Somebody who is signed in: over the API, and in each page that is opened for them."""

    client: Client
    session: dict[str, Any]

    @property
    def organization(self) -> dict[str, Any]:
        found: dict[str, Any] = self.session["organizations"][0]
        return found


@dataclass
class Watch:
    """Collects the complaints of a browser, and the requests of its pages."""

    url: str
    complaints: list[str] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    allowed: list[str] = field(default_factory=list)

    def allow(self, *parts: str) -> None:
        """Accept complaints that contain one of these texts; a test expects them."""
        self.allowed += parts

    def note_page(self, page: Page) -> None:
        page.on("console", self._note_message)
        page.on("pageerror", lambda error: self.complaints.append(f"error in the page: {error}"))
        page.on("dialog", self._note_dialog)
        page.on("request", self._note_request)

    def check(self) -> None:
        """Fail if anything has been collected that the test has not allowed."""
        found = [each for each in self.complaints if not any(part in each for part in self.allowed)]
        assert not found, "the browser complained:\n" + "\n".join(found)

    def _note_message(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(f"{message.text} ({message.location.get('url', '')})")

    async def _note_dialog(self, dialog: Dialog) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        await dialog.dismiss()

    def _note_request(self, request: Request) -> None:
        if request.url.startswith(("data:", "blob:")):
            return
        path = urlsplit(request.url).path
        self.requests.append((request.method, path))
        if not request.url.startswith(f"{self.url}/"):
            self.complaints.append(f"request to another origin: {request.url}")
        elif not path.startswith("/console/") and not is_documented(request.method, path):
            self.complaints.append(f"request that no documented route matches: {request.method} {path}")


def is_documented(method: str, path: str) -> bool:
    """Return whether the API document describes such a request."""
    return any(known == method and pattern.fullmatch(path) for known, pattern in PATTERNS)


async def press(page: Page, *keys: str) -> None:
    """Press keys one after the other, each when what is shown has bound its keys and shows the one before."""
    for key in keys:
        await page.evaluate(PAINTED)
        await page.keyboard.press(key)
    await page.evaluate(PAINTED)


class Console:
    """The console of one service, in a browser."""

    def __init__(self, browser: Browser, profile: BrowserContext, url: str) -> None:
        self.url = url
        self.watch = Watch(url)
        self._browser = browser
        self._profile = profile
        self._pages: list[Page] = []

    async def open(self, path: str = "/", person: Person | None = None, **options: Any) -> Page:
        """Open an address below /console in a new tab without anything stored, signed in as the person.

        The options are those of playwright's `new_context`, such as `color_scheme` and `viewport`; such a tab
        has a browser profile of its own, which takes a second of processor time more.
        """
        page = await (self._browser.new_page(**options) if options else self._profile.new_page())
        self._pages.append(page)
        page.set_default_timeout(DEFAULT_TIMEOUT_MS)
        stored = {} if person is None else {SESSION: json.dumps(person.session)}
        await page.add_init_script(BEGIN % json.dumps(stored))
        self.watch.note_page(page)
        await page.goto(f"{self.url}/console{path}")
        await page.locator(SCREEN).wait_for()
        await page.evaluate(PAINTED)
        return page

    def allow_refusals(self, *statuses: int) -> None:
        """Accept answers with these statuses, which Chromium logs as errors."""
        self.watch.allow(*(f"{REFUSED}: the server responded with a status of {each}" for each in statuses))

    def allow_lost_connections(self) -> None:
        """Accept requests without an answer; the test kills the service."""
        self.watch.allow(f"{REFUSED}: net::ERR_")

    async def close(self) -> None:
        for page in self._pages:
            await page.close()
        self.watch.check()
