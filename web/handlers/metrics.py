"""The service's numbers for Prometheus."""

import asyncio
import re

from aiohttp import web
from prometheus_client.exposition import choose_encoder

from web.access.auth import authenticate_scraper
from web.app_keys import READINESS, REQUEST_COUNTS, STATUS, STORAGE
from web.handlers.status import VERSION
from web.observability.metrics import Scrape
from web.routes import for_operators

MEDIA_TYPES = ("text/plain", "application/openmetrics-text")
ASKED_VERSION = re.compile(r"version=([^;,]*)")
KNOWN_VERSIONS = frozenset({"0.0.1", "0.0.4", "1.0.0"})


async def get_metrics(request: web.Request) -> web.Response:
    """In the text format of Prometheus, or in OpenMetrics where that is asked for."""
    app, accept = request.app, request.headers.get("Accept", "")
    scrape = Scrape(
        version=VERSION,
        state=app[READINESS]().state,
        overview=app[STATUS].overview(),
        database=app[STORAGE].pool.size(),
        requests=app[REQUEST_COUNTS].snapshot(),
        notifications=dict(app[STORAGE].notifications.created),
    )
    # The exposition repeats the version that is asked for, and takes none that is not made of numbers.
    if not KNOWN_VERSIONS.issuperset(ASKED_VERSION.findall(accept)):
        accept = ""
    encode, content_type = choose_encoder(accept)
    # In a thread: with every route in use it takes tens of milliseconds, for which nobody else shall wait.
    return web.Response(body=await asyncio.to_thread(encode, scrape), headers={"Content-Type": content_type})


ROUTES = (
    for_operators(
        "GET",
        "/metrics",
        get_metrics,
        "The numbers of the service, for Prometheus",
        answer=str,
        media_types=MEDIA_TYPES,
        authenticate=authenticate_scraper,
    ),
)
