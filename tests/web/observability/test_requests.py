"""The id of each request, and the counts of requests."""

from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from tests.web.conftest import Api
from web.observability.requests import BUCKET_SECONDS, Answered, RequestCounts

AGENTS = "/api/cloud/agents/"


async def test_usable_request_id_is_echoed_and_others_replaced(api: Api) -> None:
    for given in ("abc", "x" * 128, "a b~"):
        assert (await api.get(AGENTS, headers={"X-Request-ID": given})).headers["X-Request-ID"] == given
    for given in ("", "x" * 129, "\u00fc"):
        answer = await api.get(AGENTS, headers={"X-Request-ID": given})
        assert answer.headers["X-Request-ID"] not in {"", given}


async def answer(request: web.Request) -> web.Response:
    return web.Response()


async def route_of(app: web.Application, path: str) -> web.AbstractRoute:
    return (await app.router.resolve(make_mocked_request("GET", path, app=app))).route


async def test_requests_of_one_route_share_counts() -> None:
    app, counts = web.Application(), RequestCounts()
    app.router.add_get("/things/{id}/", answer)
    counts.add(await route_of(app, "/things/1/"), 200, BUCKET_SECONDS[0])
    counts.add(await route_of(app, "/things/2/"), 200, BUCKET_SECONDS[-1] + 1)
    [(kind, numbers)] = counts.snapshot().items()
    assert kind == Answered("GET", "/things/{id}/", 200)
    assert numbers == [1, *[0] * (len(BUCKET_SECONDS) - 1), 1, BUCKET_SECONDS[0] + BUCKET_SECONDS[-1] + 1]
