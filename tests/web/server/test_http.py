"""What all endpoints share: errors, redirects, request ids, limits."""

import asyncio
import gzip
import re
import time
import zlib

import pytest
from structlog.testing import capture_logs

from storage.ids import new_id
from tests.web.conftest import Api, Service, StartService
from web.app import ROUTES
from web.routes import Access, Route

AGENTS = "/api/cloud/agents/"
UNAUTHENTICATED = {"detail": "Authentication credentials were not provided."}
TOO_LARGE = (413, {"detail": "The request body is too large."})
JSON = {"Content-Type": "application/json"}
COMPRESSIONS = (("gzip", gzip.compress), ("x-gzip", gzip.compress), ("deflate", zlib.compress))

STRANGE_LINES = (
    b"GET /api/cloud/agents/?search=\xff HTTP/1.1",
    b"GET /api/cloud/agents/?purpose=\xff HTTP/1.1",
    b"GET /api/cloud/agents/?search=%ff%00 HTTP/1.1",
    b"GET /api/cloud/agents/?purpose=%00 HTTP/1.1",
    b"GET /api/cloud/agents/\xff/ HTTP/1.1",
    b"GET /api/cloud/agents/%00/ HTTP/1.1",
    b"GET /\xff HTTP/1.1",
)


def url(route: Route) -> str:
    return re.sub(r"\{\w+\}", lambda _: str(new_id()), route.path)


async def test_every_route_but_the_open_ones_asks_who_calls(service: Service) -> None:
    for route in ROUTES:
        answer = await service.nobody.request(route.method, url(route))
        if route.access is Access.ANYONE:
            assert answer.status != 401, route
        else:
            assert (answer.status, answer.body) == (401, UNAUTHENTICATED), route


async def test_an_unknown_path_is_not_found(api: Api) -> None:
    answer = await api.get("/api/cloud/robots/")
    assert (answer.status, answer.body) == (404, {"detail": "Not found."})


async def test_a_wrong_method_is_told_the_right_ones(api: Api) -> None:
    answer = await api.request("PUT", AGENTS)
    assert (answer.status, answer.body) == (405, {"detail": 'Method "PUT" not allowed.'})
    assert answer.headers["Allow"] == "GET, HEAD, POST"


async def test_a_path_that_looks_like_an_id_has_its_own_methods(api: Api) -> None:
    for path, allowed in (
        ("/api/defaults/notifications/clear/", "POST"),
        ("/api/tracing/traces/list/", "GET, HEAD"),
    ):
        answer = await api.patch(path, {})
        assert (answer.status, answer.headers["Allow"]) == (405, allowed)


async def test_a_missing_slash_is_redirected_with_method_and_query(api: Api) -> None:
    answer = await api.post("/api/cloud/agents?x=1", {})
    assert (answer.status, answer.headers["Location"]) == (308, "/api/cloud/agents/?x=1")
    assert (await api.get("/nowhere")).status == 404


async def test_a_body_may_not_be_larger_than_the_limit(start_service: StartService) -> None:
    api = await (await start_service(body_bytes=1000)).new_organization()
    answer = await api.request("POST", AGENTS, data=b'"' + b"x" * 1000 + b'"', headers=JSON)
    assert (answer.status, answer.body) == TOO_LARGE
    for encoding, compress in COMPRESSIONS:
        for size, expected in ((1000, 201), (1001, 413)):
            data = compress(b'{"name": "n", "model": "m"}'.ljust(size))
            answer = await api.request(
                "POST", AGENTS, data=data, headers=JSON | {"Content-Encoding": encoding}
            )
            assert answer.status == expected, (encoding, size)


async def test_a_body_that_grows_without_end_is_not_unpacked(service: Service, api: Api) -> None:
    bomb = gzip.compress(b" " * 100_000_000)
    for client, expected in ((api, TOO_LARGE), (service.nobody, (401, UNAUTHENTICATED))):
        begun = time.process_time()
        answer = await client.request("POST", AGENTS, data=bomb, headers=JSON | {"Content-Encoding": "gzip"})
        assert (answer.status, answer.body) == expected
        assert (await api.get("/healthz")).status == 200
        assert time.process_time() - begun < 0.1, "to unpack it takes longer"


@pytest.mark.parametrize(
    ("encoding", "data"),
    [
        ("gzip", b"no gzip at all"),
        ("deflate", b"nothing deflated"),
        ("gzip", gzip.compress(b"{}")[:-1]),
        ("deflate", zlib.compress(b"{}")[:-1]),
        ("gzip", gzip.compress(b"{}")[:12]),
        ("gzip", gzip.compress(b"{}") + b"more"),
    ],
    ids=["not gzip", "not deflate", "no end of gzip", "no end of deflate", "half a gzip", "more than gzip"],
)
async def test_a_broken_encoding_is_the_callers_fault(api: Api, encoding: str, data: bytes) -> None:
    answer = await api.request("POST", AGENTS, data=data, headers=JSON | {"Content-Encoding": encoding})
    assert (answer.status, list(answer.body)) == (400, ["detail"])


async def test_an_unknown_encoding_is_unsupported(api: Api) -> None:
    for encoding in ("br", "zstd", "wizard", "gzip, gzip"):
        answer = await api.request("POST", AGENTS, data=b"{}", headers=JSON | {"Content-Encoding": encoding})
        detail = f'Unsupported content encoding "{encoding}" in request.'
        assert (answer.status, answer.body) == (415, {"detail": detail})


async def test_a_strange_expectation_is_refused_in_json(service: Service) -> None:
    headers = {"Expect": "wizardry", "X-Request-ID": "mine"}
    for method, path in (("GET", "/healthz"), ("PUT", "/healthz"), ("GET", "/nowhere/"), ("GET", AGENTS)):
        answer = await service.nobody.request(method, path, headers=headers)
        assert (answer.status, answer.body) == (417, {"detail": "Expectation Failed."})
        assert answer.headers["X-Request-ID"] == "mine"


@pytest.mark.parametrize("rest", [b"", b"zz\r\n\r\n"], ids=["nothing", "what is no chunk"])
async def test_a_body_that_does_not_go_on_is_not_waited_for(start_service: StartService, rest: bytes) -> None:
    service = await start_service(body_seconds=0.1)
    api = await service.new_organization()
    head = f"POST {AGENTS} HTTP/1.1\r\nHost: x\r\nAuthorization: {api.authorization}\r\n"
    reader, writer = await asyncio.open_connection(*service.address)
    writer.write(f"{head}Transfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n".encode())
    await writer.drain()
    await api.get("/healthz")
    writer.write(rest)
    told = await reader.readuntil(b"}")
    writer.close()
    await writer.wait_closed()
    assert told.startswith(b"HTTP/1.1 400 ")
    assert told.endswith(b'{"detail":"The request body did not arrive within 0.1 seconds."}')


async def test_a_client_that_leaves_in_the_middle_of_a_body_is_no_defect(service: Service, api: Api) -> None:
    head = f"POST {AGENTS} HTTP/1.1\r\nHost: x\r\nAuthorization: {api.authorization}\r\nContent-Length: 9"
    with capture_logs() as logged:
        _, writer = await asyncio.open_connection(*service.address)
        writer.write(f"{head}\r\n\r\n{{".encode())
        await writer.drain()
        await api.get(AGENTS)
        writer.close()
        await writer.wait_closed()
        await api.get(AGENTS)
    assert logged == []


async def test_other_media_types_are_unsupported(api: Api) -> None:
    answer = await api.request("POST", AGENTS, data=b"x", headers={"Content-Type": "text/plain"})
    assert (answer.status, answer.body) == (
        415,
        {"detail": 'Unsupported media type "text/plain" in request.'},
    )


async def test_what_is_no_json_is_refused(api: Api) -> None:
    answer = await api.request("POST", AGENTS, data=b"{", headers={"Content-Type": "application/json"})
    assert answer.status == 400
    assert answer.body["detail"].startswith("JSON parse error - ")


async def test_a_usable_request_id_is_echoed_and_any_other_replaced(api: Api) -> None:
    for given in ("abc", "x" * 128, "a b~"):
        assert (await api.get(AGENTS, headers={"X-Request-ID": given})).headers["X-Request-ID"] == given
    for given in ("", "x" * 129, "\u00fc"):
        answer = await api.get(AGENTS, headers={"X-Request-ID": given})
        assert answer.headers["X-Request-ID"] not in {"", given}


async def test_every_answer_has_an_id_of_its_own(api: Api) -> None:
    answers = [await api.get(path) for path in (AGENTS, "/nowhere/", "/healthz", AGENTS)]
    assert len({answer.headers["X-Request-ID"] for answer in answers}) == 4


async def test_a_defect_says_nothing_but_its_request_id(service: Service, api: Api) -> None:
    await service.storage.pool.execute("ALTER TABLE agent RENAME TO elsewhere")
    answer = await api.get(AGENTS)
    assert (answer.status, answer.body) == (
        500,
        {"detail": "Internal server error.", "request_id": answer.headers["X-Request-ID"]},
    )


async def test_a_database_that_is_away_is_worth_another_try(service: Service, api: Api) -> None:
    await service.storage.close()
    answer = await api.post("/api/defaults/notifications/", {"agent": str(new_id()), "title": "x"})
    assert (answer.status, answer.body) == (503, {"detail": "The database is not available."})
    assert int(answer.headers["Retry-After"]) > 0


async def test_strange_bytes_in_a_path_are_never_a_defect(service: Service, api: Api) -> None:
    head = f"\r\nHost: x\r\nConnection: close\r\nAuthorization: {api.authorization}\r\n\r\n"
    for line in STRANGE_LINES:
        reader, writer = await asyncio.open_connection(*service.address)
        writer.write(line + head.encode())
        status_line = await reader.readline()
        writer.close()
        await writer.wait_closed()
        assert int(status_line.split()[1]) in {200, 400, 404}, line


async def test_a_missing_slash_is_no_way_to_another_host(service: Service) -> None:
    for line in (b"GET //evil.example/api/cloud/agents", b"GET //evil.example/api/cloud/agents?x=1"):
        reader, writer = await asyncio.open_connection(*service.address)
        writer.write(line + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        head = (await reader.read()).partition(b"\r\n\r\n")[0].lower()
        writer.close()
        await writer.wait_closed()
        assert head.startswith(b"http/1.1 404 ")
        assert b"\r\nlocation:" not in head
