"""What a connection beyond the maximum may ask for."""

from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from web.server.operator_places import answer_operator_only


async def test_only_health_metrics_and_status_are_answered() -> None:
    async def handler(_: web.BaseRequest) -> web.Response:
        return web.Response(status=200)

    async def status(path: str) -> int:
        answer = await answer_operator_only(handler, {}, make_mocked_request("GET", path))
        assert answer.keep_alive is False
        return answer.status

    for path in ("/healthz", "/readyz", "/metrics", "/status/", "/status/supervisors/"):
        assert await status(path) == 200
    for path in ("/", "/api/docs/", "/status", "/healthz/"):
        assert await status(path) == 503
