"""The connections beyond the maximum: only for the requests by which operators and load balancers look on."""

from collections.abc import Mapping

from aiohttp import web

from web.errors import Unavailable
from web.json import json_response
from web.observability.request_id import HEADER, id_of
from web.server.framework import RequestHandler, SecuredResponse
from web.server.raw_answers import RETRY_SECONDS

PATHS = frozenset({"/healthz", "/readyz", "/metrics"})
STATUS = "/status/"


async def answer_operator_only(
    handler: RequestHandler, answer_headers: Mapping[str, str], request: web.BaseRequest
) -> web.StreamResponse:
    """Answer one health check or status request, and 503 to anything else. The connection ends afterwards."""
    if request.path in PATHS or request.path.startswith(STATUS):
        answer = await handler(request)
    else:
        refusal = Unavailable("Too many connections are open.", RETRY_SECONDS)
        headers = {**refusal.headers, HEADER: id_of(request)}
        answer = SecuredResponse(json_response(refusal.body, refusal.status, headers), answer_headers)
    request.protocol.close()
    answer.force_close()
    return answer
