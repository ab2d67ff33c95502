"""The OpenAPI document and Swagger UI over HTTP, served without outside resources."""

import re

import pytest

from tests.web.conftest import Service

DOCS = "/api/docs/"


@pytest.mark.parametrize(
    ("name", "content_type", "beginning"),
    [
        ("", "text/html; charset=utf-8", "<!doctype html>"),
        ("start.js", "text/javascript; charset=utf-8", "//"),
        ("swagger-ui-bundle.js", "text/javascript; charset=utf-8", "/*! For license information"),
        ("swagger-ui.css", "text/css; charset=utf-8", ".swagger-ui"),
    ],
)
async def test_file_is_served_with_its_content_type(
    service: Service, name: str, content_type: str, beginning: str
) -> None:
    answer = await service.nobody.get(DOCS + name)
    assert (answer.status, answer.headers["Content-Type"]) == (200, content_type)
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.body.startswith(beginning)


async def test_page_refers_only_to_served_files(service: Service) -> None:
    page = (await service.nobody.get(DOCS)).body
    names = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert len(names) == 4
    for name in names:
        async with service.client.get(DOCS + name) as response:
            assert response.status == 200, name


async def test_page_may_load_nothing_from_elsewhere(service: Service) -> None:
    policy = (await service.nobody.get(DOCS)).headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self';")
    assert "http" not in policy


async def test_page_shows_the_served_document(service: Service) -> None:
    start = (await service.nobody.get(f"{DOCS}start.js")).body
    assert 'url: "../schema/"' in start


async def test_unknown_file_is_not_found(service: Service) -> None:
    for name in ("nothing.js", "..%2f..%2fapp.py", "index.html/"):
        assert (await service.nobody.get(DOCS + name)).status == 404
