"""The headers of every answer, on every route and however it is refused; answers without an application."""

import asyncio
import re
import socket
from collections.abc import Mapping
from http import HTTPStatus
from uuid import uuid4

from aiohttp import web

from storage.postgres.paging import CHUNK_BYTES
from tests.web.conftest import Api, Service
from tests.web.server.clients import GET, Client, small_server
from web.api.service.pages import FILE_TYPES, PAGES
from web.app import ROUTES
from web.server.connection import SECURITY_HEADERS, raw_answer
from web.server.listener import serving
from web.settings import ConnectionSettings

DOCUMENTS = "/api/defaults/documents/"
POLICY = "Content-Security-Policy"
CACHING = "Cache-Control"


def check_headers(headers: Mapping[str, str], where: str, *, is_page: bool = False) -> None:
    """Check the headers of an answer; the pages of the documentation have some values of their own."""
    lower = {name.lower(): value for name, value in headers.items()}
    assert "server" not in lower, where
    for name, value in SECURITY_HEADERS.items():
        if is_page and name in {POLICY, CACHING}:
            assert lower[name.lower()] != value, where
        else:
            assert lower.get(name.lower()) == value, where


async def test_answers_of_all_routes_have_the_headers(service: Service, api: Api) -> None:
    for route in ROUTES:
        path = re.sub(r"\{\w+\}", str(uuid4()), route.path)
        for client in (service.nobody, api, service.operator):
            answer = await client.request(route.method, path)
            check_headers(answer.headers, f"{route.method} {path}", is_page=path == PAGES)
        answer = await api.request("OPTIONS", path)
        check_headers(answer.headers, f"OPTIONS {path}")


async def test_files_of_the_documentation_have_the_headers(service: Service) -> None:
    for name in FILE_TYPES:
        async with service.client.get(PAGES + name) as response:
            check_headers(response.headers, name, is_page=True)
            assert response.headers[CACHING] == "no-cache"


async def test_answers_of_the_framework_have_the_headers(service: Service, api: Api) -> None:
    for path in ("/nowhere/", DOCUMENTS.rstrip("/"), f"{PAGES}nothing.js", f"{DOCUMENTS}%ff/"):
        check_headers((await api.get(path)).headers, path)
    answer = await api.get("/healthz", headers={"Expect": "wizardry"})
    assert answer.status == 417
    check_headers(answer.headers, "417")
    check_headers((await api.request("HEAD", DOCUMENTS)).headers, "HEAD")
    for request in (b"NONSENSE\r\n\r\n", GET[:-2] + b"A: b\x01\r\n\r\n"):
        client = Client(*await asyncio.open_connection(*service.address))
        await client.send(request)
        malformed = await client.answer()
        assert malformed.status == 400
        check_headers(malformed.headers, "400")
        client.writer.close()


async def test_streamed_list_has_the_headers(api: Api) -> None:
    for _ in range(2):
        await api.create(DOCUMENTS, title="A", content="x" * CHUNK_BYTES)
    answer = await api.get(DOCUMENTS)
    assert answer.headers["Transfer-Encoding"] == "chunked"
    check_headers(answer.headers, "list")


async def test_refused_and_late_connections_have_the_headers() -> None:
    async with small_server(ConnectionSettings(max_connections=2, head_seconds=0.1)) as server:
        late = await server.connect(data=GET[:10])
        refused = await server.connect()
        for client, status in ((refused, 429), (late, 408)):
            answer = await client.answer()
            assert answer.status == status
            check_headers(answer.headers, str(status))


async def test_crash_has_the_headers() -> None:
    async def fail(_: web.Request) -> web.Response:
        raise RuntimeError

    crashing = web.Application()
    crashing.router.add_get("/healthz", fail)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with serving(crashing, listener):
            client = Client(*await asyncio.open_connection(*listener.getsockname()))
            await client.send(GET)
            answer = await client.answer()
            client.writer.close()
        assert answer.status == 500
        check_headers(answer.headers, "500")


async def test_https_clients_are_told_to_stay_with_https() -> None:
    for settings, expected in (
        (ConnectionSettings(is_https=True), "max-age=31536000"),
        (ConnectionSettings(), None),
    ):
        async with small_server(settings) as server:
            for request in (GET, b"NONSENSE\r\n\r\n"):
                answer = await (await server.connect(data=request)).answer()
                assert answer.headers.get("strict-transport-security") == expected


def test_raw_answer_is_a_whole_answer_that_ends_the_connection() -> None:
    head, _, body = raw_answer(HTTPStatus.SERVICE_UNAVAILABLE, "Full.", {"A": "b"}).partition(b"\r\n\r\n")
    status, *headers = head.decode().split("\r\n")
    assert status == "HTTP/1.1 503 Service Unavailable"
    assert body == b'{"detail":"Full."}'
    names = [header.partition(": ")[0] for header in headers]
    assert names == ["Content-Type", "Content-Length", "X-Request-ID", "A", "Connection", "Retry-After"]
    assert f"Content-Length: {len(body)}" in headers


def test_late_request_is_not_asked_to_retry() -> None:
    assert b"Retry-After" not in raw_answer(HTTPStatus.REQUEST_TIMEOUT, "Late.", {})
