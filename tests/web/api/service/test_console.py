"""The console's page and files over HTTP."""

import pytest

from tests.web.conftest import Service, StartService
from web.console.assets import read_console

POLICY = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"
FILES = read_console()
MAIN = FILES.url("app/main.js")


@pytest.mark.parametrize("path", ["", "agents/", "agents/0198/", "runs/x/y?span=1", "assetsx", "..%2fapp"])
async def test_every_address_of_the_console_answers_the_page(service: Service, path: str) -> None:
    answer = await service.nobody.get(f"/console/{path}")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert answer.body == FILES.page.decode()
    assert answer.headers["Content-Security-Policy"] == POLICY
    assert answer.headers["Cache-Control"] == "no-cache"


async def test_browsers_keep_files_for_a_year(service: Service) -> None:
    answer = await service.nobody.get(MAIN, headers={"Accept-Encoding": "identity"})
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/javascript; charset=utf-8")
    assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert answer.headers["Vary"] == "Accept-Encoding"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.body == FILES.assets["app/main.js"].body.decode()


@pytest.mark.parametrize(
    ("path", "content_type"),
    [("console.css", "text/css; charset=utf-8"), ("icon.svg", "image/svg+xml; charset=utf-8")],
)
async def test_file_has_its_content_type(service: Service, path: str, content_type: str) -> None:
    answer = await service.nobody.get(FILES.url(path))
    assert (answer.status, answer.headers["Content-Type"]) == (200, content_type)


async def test_file_is_compressed_for_clients_that_accept_gzip(service: Service) -> None:
    asset = FILES.assets["vendor/preact.js"]
    async with service.client.get(
        FILES.url("vendor/preact.js"), headers={"Accept-Encoding": "gzip"}
    ) as response:
        assert response.headers["Content-Encoding"] == "gzip"
        assert await response.read() == asset.body  # decompressed by the client
        assert int(response.headers["Content-Length"]) == len(asset.by_gzip)


async def test_file_is_compressed_by_brotli_once_it_is_ready(service: Service) -> None:
    asset = FILES.assets["vendor/preact.js"]
    asset.compress()
    headers = {"Accept-Encoding": "gzip, deflate, br"}
    async with service.client.get(FILES.url("vendor/preact.js"), headers=headers) as response:
        assert response.headers["Content-Encoding"] == "br"
        assert await response.read() == asset.body
        assert int(response.headers["Content-Length"]) < len(asset.by_gzip)


async def test_file_of_earlier_version_asks_to_reload(service: Service) -> None:
    answer = await service.nobody.get("/console/assets/0123456789abcdef/app/main.js")
    assert answer.status == 404
    assert answer.body == {"detail": "This file belongs to another version of the console. Reload the page."}


@pytest.mark.parametrize(
    "path", ["app/nothing.js", "index.html", "vendor/lock.json", "..%2f..%2fapp.py", "app/"]
)
async def test_unknown_file_is_not_found(service: Service, path: str) -> None:
    answer = await service.nobody.get(FILES.url(path))
    assert (answer.status, answer.body) == (404, {"detail": "Not found."})


@pytest.mark.parametrize("path", ["", "nothing", f"{FILES.digest}", f"{FILES.digest}/"])
async def test_incomplete_address_of_file_is_not_found(service: Service, path: str) -> None:
    answer = await service.nobody.get(f"/console/assets/{path}")
    assert (answer.status, answer.body) == (404, {"detail": "Not found."})


async def test_console_answers_head_and_refuses_other_methods(service: Service) -> None:
    for path in ("/console/", "/console/agents/", MAIN):
        head = await service.nobody.request("HEAD", path)
        assert (head.status, head.body) == (200, "")
        refused = await service.nobody.post(path)
        assert (refused.status, refused.headers["Allow"]) == (405, "GET, HEAD")


async def test_console_counts_for_no_rate_limit(start_service: StartService) -> None:
    service = await start_service(anonymous_requests_per_minute=1)
    for _ in range(5):
        assert (await service.nobody.get("/console/")).status == 200
        assert (await service.nobody.get(MAIN)).status == 200
    assert (await service.nobody.get("/api/schema/")).status == 200
