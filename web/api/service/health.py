"""Health checks: liveness of the process and readiness to serve."""

from typing import Literal, TypedDict

from aiohttp import web

from web.app_keys import HEALTH
from web.errors import Unavailable
from web.json import json_response
from web.ports import ServiceState
from web.routes import Access, Routes

routes = Routes(Access.ANYONE)

RETRY_SECONDS = 5


class AliveResponse(TypedDict):
    """A sign of life."""

    status: Literal["ok"]
    """Always `ok`."""


class ReadyResponse(TypedDict):
    """The state of a service that can serve."""

    state: ServiceState
    """`ready`, or `degraded` with a problem that does not keep it from serving."""
    reasons: tuple[str, ...]
    """A sentence for each problem; none if all is well."""


@routes.get("/healthz", answer=AliveResponse, is_rate_limited=False)
async def is_alive(_: web.Request) -> web.Response:
    """Answer 200 while the process lives. A standby answers it, too, and it needs no database."""
    answer: AliveResponse = {"status": "ok"}
    return json_response(answer)


@routes.get("/readyz", answer=ReadyResponse, refusals={503}, is_rate_limited=False)
async def is_ready(request: web.Request) -> web.Response:
    """Return the state of the service; 503 while it drains, is not the leader, or cannot write."""
    readiness = await request.app[HEALTH].readiness()
    if not readiness.may_serve:
        raise Unavailable(" ".join(readiness.reasons), RETRY_SECONDS)
    answer: ReadyResponse = {"state": readiness.state, "reasons": readiness.reasons}
    return json_response(answer)
