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


async def test_standby_answers_browsers_with_a_page_that_reloads() -> None:
    async with TestClient(TestServer(build_standby_app())) as client:
        page = await client.get("/console/agents/", headers={"Accept": "text/html,*/*;q=0.8"})
        assert (page.status, page.content_type, page.headers["Refresh"]) == (503, "text/html", "3")
        assert "This instance is standing by" in await page.text()
