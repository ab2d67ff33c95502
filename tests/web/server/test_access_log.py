"""The access log: a line for each request, without secrets, and nothing unless it is wanted."""

import asyncio
from collections.abc import Iterator
from ipaddress import ip_network
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.web.conftest import OPERATOR_TOKEN, Api, Service, StartService
from tests.web.people import founder
from web.settings import ConnectionSettings

WITH_LOG = ConnectionSettings(has_access_log=True, trusted_proxies=(ip_network("127.0.0.1"),))

Lines = list[dict[str, Any]]


@pytest.fixture
async def service(start_service: StartService) -> Service:
    return await start_service(WITH_LOG)


@pytest.fixture
def logged(service: Service) -> Iterator[Lines]:
    with capture_logs() as captured:
        yield captured  # type: ignore[misc] # a list of mappings


def answered(logged: Lines) -> Lines:
    return [line for line in logged if line["event"] == "request answered" and line["path"] != "/healthz"]


async def line_of(service: Service, logged: Lines, api: Api, method: str, path: str, **options: Any) -> Any:
    """Return the answer to a request, and its line, which is written before the connection's next one."""
    answer = await api.request(method, path, **options)
    await service.nobody.get("/healthz")
    [line] = answered(logged)
    logged.clear()
    return answer, line


async def test_line_names_request_caller_and_client(service: Service, logged: Lines) -> None:
    api = await service.new_organization()
    agent = await api.create_agent()
    await service.nobody.get("/healthz")
    logged.clear()
    path, headers = f"/api/cloud/agents/{agent['id']}/", {"X-Request-ID": "r-1", "X-Forwarded-For": "::9"}
    answer, line = await line_of(service, logged, api, "GET", path, headers=headers)
    key = (await api.get("/api/organizations/api-keys/")).body[0]["id"]
    assert 0 < line.pop("duration_ms") < 10_000
    assert line.pop("bytes") > int(answer.headers["Content-Length"])  # with the head
    assert line == {
        "event": "request answered",
        "log_level": "info",
        "request_id": "r-1",
        "method": "GET",
        "path": path,
        "route": "/api/cloud/agents/{id}/",
        "status": 200,
        "caller": f"key:{key}",
        "client": "::9",
    }


async def test_line_tells_users_operators_and_strangers_apart(service: Service, logged: Lines) -> None:
    user, _ = await founder(service)
    operator = service.nobody.with_authorization(f"Bearer {OPERATOR_TOKEN}")
    stranger = service.nobody.with_authorization("Bearer hsk_abcdefgh_wrong")
    agents = "/api/cloud/agents/"
    _, line = await line_of(service, logged, user, "GET", agents)
    assert line["caller"].startswith("user:")
    _, line = await line_of(service, logged, operator, "GET", "/status/")
    assert line["caller"] == "operator"
    _, line = await line_of(service, logged, stranger, "GET", agents)
    assert (line["status"], line["caller"], line["client"]) == (401, "", "127.0.0.1")


async def test_line_has_no_query_and_a_bounded_path(service: Service, logged: Lines) -> None:
    path = "/nowhere/" + "x" * 2000 + "/?code=hunter2"
    answer, line = await line_of(service, logged, service.nobody, "GET", path)
    assert (answer.status, line["status"], line["route"]) == (404, 404, "")
    assert len(line["path"]) == 500
    assert "hunter2" not in str(line)


@pytest.mark.parametrize(
    ("method", "end", "status"),
    [("POST", "", 401), ("POST", "/", 401), ("GET", "/", 405), ("POST", "/x/", 404), ("POST", "%2Fx", 401)],
)
async def test_token_of_a_hook_is_not_logged(
    service: Service, logged: Lines, method: str, end: str, status: int
) -> None:
    hook = "/hooks/01a1f890-0c1d-7e8e-9a40-1f2b7c6d5e4f/"
    answer, line = await line_of(service, logged, service.nobody, method, f"{hook}secret-token{end}")
    assert (answer.status, line["path"]) == (status, f"{hook}{{token}}")
    assert "secret-token" not in str(line)


async def test_token_of_a_hook_whose_delivery_fails_is_not_logged(
    service: Service, logged: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def crash(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(service.storage.hooks, "get_cached", crash)
    answer = await service.nobody.post("/hooks/01a1f890-0c1d-7e8e-9a40-1f2b7c6d5e4f/secret-token/")
    assert (answer.status, "secret-token" in str(logged)) == (500, False)


async def test_no_request_has_a_line_by_default(start_service: StartService) -> None:
    service = await start_service()
    with capture_logs() as logged:
        for _ in range(2):
            await service.nobody.get("/healthz")
    assert logged == []


async def test_malformed_request_has_a_line_with_its_id(service: Service, logged: Lines) -> None:
    reader, writer = await asyncio.open_connection(*service.address)
    writer.write(b"NONSENSE\r\n\r\n")
    head = await reader.read()  # to the end of the connection, which follows the line
    writer.close()
    [line] = answered(logged)
    assert (line["status"], line["route"], line["caller"]) == (400, "", "")
    assert f"X-Request-ID: {line['request_id']}".encode() in head
