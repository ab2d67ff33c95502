"""The metrics of the service for Prometheus."""

import asyncio
import re

from aiohttp import web
from prometheus_client.exposition import choose_encoder

from web.access.auth import authenticate_scraper
from web.app_keys import HEALTH, RATE_LIMITS, REQUEST_COUNTS, STATUS, STORAGE
from web.observability.metrics import Scrape
from web.routes import Access, Routes
from web.version import VERSION

routes = Routes(Access.OPERATORS)

MEDIA_TYPES = ("text/plain", "application/openmetrics-text")
REQUESTED_VERSION = re.compile(r"version=([^;,]*)")
SUPPORTED_VERSIONS = frozenset({"0.0.1", "0.0.4", "1.0.0"})


@routes.get(
    "/metrics", answer=str, media_types=MEDIA_TYPES, authenticate=authenticate_scraper, is_rate_limited=False
)
async def get_metrics(request: web.Request) -> web.Response:
    """Return the metrics in the text format of Prometheus, or in OpenMetrics if `Accept` asks for it."""
    app, accept = request.app, request.headers.get("Accept", "")
    scrape = Scrape(
        version=VERSION,
        readiness=await app[HEALTH].readiness(),
        numbers=app[STATUS].numbers(),
        database=app[STORAGE].pool.size(),
        requests=app[REQUEST_COUNTS].snapshot(),
        notifications=dict(app[STORAGE].notifications.created),
        refusals={**app[RATE_LIMITS].refused(), **app[STORAGE].limits.refused()},
        tasks=len(asyncio.all_tasks()),
    )
    # prometheus_client repeats the requested version, and fails on one that does not consist of numbers.
    if not SUPPORTED_VERSIONS.issuperset(REQUESTED_VERSION.findall(accept)):
        accept = ""
    encode, content_type = choose_encoder(accept)
    # Encode in a thread: with every route in use it takes tens of milliseconds.
    return web.Response(body=await asyncio.to_thread(encode, scrape), headers={"Content-Type": content_type})
