"""The application of an instance that does not serve."""

from aiohttp.test_utils import TestClient, TestServer

from web.server.standby import build_standby_app


async def test_standby_is_alive_and_refuses_everything_else() -> None:
    async with TestClient(TestServer(build_standby_app())) as client:
        alive = await client.get("/healthz")
        assert (alive.status, await alive.json()) == (200, {"status": "ok"})
        for method, path in (("GET", "/"), ("POST", "/api/cloud/agents/"), ("GET", "/readyz")):
            refused = await client.request(method, path)
            assert (refused.status, refused.headers["Retry-After"]) == (503, "1")
            assert "standing by" in (await refused.json())["detail"]
