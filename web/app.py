"""The application: the route table, what the handlers need, and what stands around each of them."""

from collections.abc import AsyncIterator, Callable
from datetime import timedelta

from aiohttp import web

from storage.storage import Storage
from supervisors.clock import Clock
from web import request_id
from web.credentials import UserTokens
from web.errors import errors_as_json
from web.handlers import accounts, agents, api_keys, health, notifications, runs, status, templates, traces
from web.keys import (
    CLOCK,
    PASSWORDS,
    READINESS,
    REGISTRY,
    SETTINGS,
    STARTED_AT,
    STORAGE,
    THROTTLE,
    USER_TOKENS,
)
from web.passwords import Passwords
from web.ports import Readiness, Registry
from web.settings import WebSettings
from web.throttle import Throttle

ROUTES = (
    *accounts.ROUTES,
    *api_keys.ROUTES,
    *templates.ROUTES,
    *agents.ROUTES,
    *runs.ROUTES,
    *notifications.ROUTES,
    *traces.ROUTES,
    *health.ROUTES,
    *status.ROUTES,
)


def build_app(
    *,
    storage: Storage,
    registry: Registry,
    clock: Clock,
    settings: WebSettings,
    readiness: Callable[[], Readiness],
) -> web.Application:
    """The HTTP interface over what the composition root has opened."""
    app = web.Application(
        middlewares=[request_id.identify, errors_as_json],
        client_max_size=settings.body_bytes,
    )
    app[STORAGE] = storage
    app[REGISTRY] = registry
    app[CLOCK] = clock
    app[SETTINGS] = settings
    app[READINESS] = readiness
    app[STARTED_AT] = clock.now()
    app[THROTTLE] = Throttle()
    app[USER_TOKENS] = UserTokens(settings.token_secret, timedelta(days=settings.token_days))
    app.cleanup_ctx.append(_passwords)
    app.on_response_prepare.append(request_id.echo)
    for route in ROUTES:
        app.router.add_route(route.method, route.path, route.handler)
        if route.method == "GET":
            app.router.add_route("HEAD", route.path, route.handler)
    return app


async def _passwords(app: web.Application) -> AsyncIterator[None]:
    with Passwords() as passwords:
        app[PASSWORDS] = passwords
        yield
