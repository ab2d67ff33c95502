"""Take the pictures of docs/console: each screen in light, in dark, and on a telephone."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import aiohttp

from tests.acceptance.client import Client
from tests.acceptance.process import serving
from tests.acceptance.services import OPERATOR_TOKEN
from tests.chromium import browser
from tests.console.addresses import wait_until_ready
from tests.console.conftest import sign_up
from tests.console.example_organization import DEAD_MODEL, fill
from tests.console.visits import Console, Person
from tests.paths import DOCS

PICTURES = DOCS / "console"
SCREENS = {
    "now": "/",
    "agents": "/agents",
    "agent": "/agents/{agent}",
    "agent-conversation": "/agents/{agent}/conversation",
    "agent-settings": "/agents/{agent}/settings",
    "agent-what-if": "/agents/{agent}/what-if",
    "run": "/agents/{agent}/runs/{run}",
    "runs": "/runs",
    "messages": "/messages",
    "contacts": "/contacts",
    "queue": "/queue",
    "usage": "/usage",
    "templates": "/templates/{template}",
    "prompt": "/templates/{template}/prompts?version=2",
    "tools": "/tools/{adapter}",
    "webhooks": "/webhooks",
    "people": "/people",
    "start": "/start?template={template}&agent={agent}",
}
OF_OPERATORS = {"service": "/service"}
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light", "viewport": {"width": 1200, "height": 760}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1200, "height": 760}},
    "phone": {"color_scheme": "light", "viewport": {"width": 360, "height": 740}},
}


async def main() -> None:
    """Start a service with an example organization, and take all pictures."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="hostsvc-pictures-") as directory:
        sections: dict[str, Any] = {
            "server": {"port": 0},
            "database": {"data_dir": str(Path(directory) / "data")},
            "operator": {"token": OPERATOR_TOKEN},
            f"models.{DEAD_MODEL.partition('/')[0]}": {"base_url": "http://127.0.0.1:9/v1"},
        }
        async with (
            serving(Path(directory), "service", sections) as service,
            aiohttp.ClientSession() as http,
            browser() as chromium,
        ):
            person = await sign_up(http, service.url, organization_name="Parcel company")
            ids = await fill(person)
            operator = Person(Client(http, service.url), {"kind": "operator", "token": OPERATOR_TOKEN})
            console = Console(chromium, await chromium.new_context(), service.url)
            for look, options in LOOKS.items():
                for visitor, screens in ((person, SCREENS), (operator, OF_OPERATORS)):
                    page = await console.open("/nowhere", visitor, locale="en-GB", **options)
                    for name, path in screens.items():
                        await page.goto(f"{service.url}/console{path.format(**ids)}")
                        await wait_until_ready(page)
                        await page.screenshot(path=PICTURES / f"{name}-{look}.png")
                    await page.close()


if __name__ == "__main__":
    asyncio.run(main())
