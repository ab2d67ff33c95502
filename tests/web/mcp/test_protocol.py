"""The messages of both eras: what is answered, and how each malformed one is refused."""

import asyncio
import json
from base64 import b64encode
from typing import Any

import pytest

from tests.web.conftest import Answer, Api, Service, StartService
from tests.web.mcp.messages import (
    ASSISTANT,
    CAPABILITIES_KEY,
    LEGACY,
    MODERN,
    VERSION_KEY,
    agent_path,
    headers_of,
    meta,
    request,
    result_of,
    send,
)

ERAS = pytest.mark.parametrize("version", [MODERN, LEGACY])
PARSE_ERROR, INVALID_REQUEST, UNKNOWN_METHOD, INVALID_PARAMS = -32700, -32600, -32601, -32602
HEADER_MISMATCH, UNSUPPORTED_VERSION = -32020, -32022
SUPPORTED = [MODERN, LEGACY, "2025-06-18", "2025-03-26", "2024-11-05"]


async def send_raw(api: Api, body: bytes, version: str, **headers: str) -> Answer:
    all_headers = {"Content-Type": "application/json", "MCP-Protocol-Version": version, **headers}
    return await api.request("POST", ASSISTANT, data=body, headers=all_headers)


def error_of(answer: Answer) -> tuple[int, int, Any]:
    """Return the status, the code of the error and the id that is answered."""
    assert answer.body.keys() == {"jsonrpc", "id", "error"}
    assert answer.body["error"]["message"]
    return answer.status, answer.body["error"]["code"], answer.body["id"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", PARSE_ERROR),
        (b"{", PARSE_ERROR),
        (b"\xff", PARSE_ERROR),
        (b'{"id": 1, "id": 2}', PARSE_ERROR),
        (b"[" * 2000 + b"]" * 2000, PARSE_ERROR),
        (b"[]", INVALID_REQUEST),
        (b'[{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}]', INVALID_REQUEST),
        (b"[1," + b" " * 200_000 + b"2]", INVALID_REQUEST),
        (b'"tools/list"', INVALID_REQUEST),
        (b"{}", INVALID_REQUEST),
        (b'{"id": 1, "method": "tools/list"}', INVALID_REQUEST),
        (b'{"jsonrpc": "1.0", "id": 1, "method": "tools/list"}', INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": 1, "method": 3}', INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": []}', INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": null, "method": "tools/list"}', INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": true, "method": "tools/list"}', INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": 1.5, "method": "tools/list"}', INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": {}, "method": "tools/list"}', INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": 9223372036854775808, "method": "tools/list"}', INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": 1%s, "method": "tools/list"}' % (b"0" * 30), INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": 1%s, "method": "tools/list"}' % (b"0" * 400), PARSE_ERROR),
        (b'{"jsonrpc": "2.0", "id": 1, "result": {}}', INVALID_REQUEST),
    ],
)
@ERAS
async def test_body_that_is_no_message_is_refused(api: Api, version: str, body: bytes, code: int) -> None:
    answer = await send_raw(api, body, version, **{"Mcp-Method": "tools/list"})
    assert error_of(answer) == (400, code, None)


@ERAS
async def test_other_content_types_and_longer_bodies_are_refused_as_everywhere(
    start_service: StartService, version: str
) -> None:
    api = await (await start_service(body_bytes=1024)).new_organization()
    for kind in ("", "text/plain", "application/x-www-form-urlencoded"):
        answer = await send_raw(api, b"{}", version, **{"Content-Type": kind})
        assert (answer.status, list(answer.body)) == (415, ["detail"])
    assert (await send_raw(api, b" " * 1025, version)).status == 413


@ERAS
async def test_ids_come_back_as_they_were_sent(api: Api, version: str) -> None:
    for message_id in (0, -7, 2**63 - 1, "", "x" * 10_000, "\u0000"):
        message = {**request("tools/list", version), "id": message_id}
        answer = await api.post(ASSISTANT, message, headers=headers_of(message, version))
        assert (answer.status, answer.body["id"]) == (200, message_id)


async def test_unknown_methods_are_404_only_to_modern_clients(api: Api) -> None:
    for method in (
        "initialize",
        "ping",
        "resources/list",
        "logging/setLevel",
        "tasks/list",
        "x\u0000",
        "fly",
    ):
        message = request(method, MODERN)
        headers = {**headers_of(message, MODERN), "Mcp-Method": method.replace("\u0000", "")}
        expected = (404, UNKNOWN_METHOD, 1) if "\u0000" not in method else (400, HEADER_MISMATCH, 1)
        assert error_of(await api.post(ASSISTANT, message, headers=headers)) == expected
    for method in ("server/discover", "resources/list", "tasks/cancel", "subscriptions/listen", "fly"):
        assert error_of(await send(api, ASSISTANT, method, LEGACY)) == (200, UNKNOWN_METHOD, 1)


@pytest.mark.parametrize(
    "params",
    [{}, {"name": 3}, {"name": "why", "arguments": []}, {"name": "fly"}, {"name": None, "arguments": {}}],
)
async def test_wrong_parameters_are_refused(api: Api, params: Any) -> None:
    message = request("tools/call", MODERN, **params)
    headers = {**headers_of(message, MODERN), "Mcp-Name": str(params.get("name"))}
    assert error_of(await api.post(ASSISTANT, message, headers=headers)) == (400, INVALID_PARAMS, 1)
    message = request("tools/call", LEGACY, **params)
    assert error_of(await api.post(ASSISTANT, message)) == (200, INVALID_PARAMS, 1)


@pytest.mark.parametrize(
    "sent",
    [
        None,
        [],
        {},
        {VERSION_KEY: MODERN},
        {CAPABILITIES_KEY: {}},
        {VERSION_KEY: MODERN, CAPABILITIES_KEY: []},
        {VERSION_KEY: None, CAPABILITIES_KEY: {}},
        {**meta(), CAPABILITIES_KEY: {"extensions": 3}},
    ],
)
async def test_modern_request_without_its_metadata_is_refused(api: Api, sent: Any) -> None:
    message = {**request("server/discover", MODERN), "params": {} if sent is None else {"_meta": sent}}
    answer = await api.post(ASSISTANT, message, headers=headers_of(message, MODERN))
    assert error_of(answer) == (400, INVALID_PARAMS, 1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MCP-Protocol-Version", None),
        ("MCP-Protocol-Version", LEGACY),
        ("MCP-Protocol-Version", "1999-01-01"),
        ("Mcp-Method", None),
        ("Mcp-Method", "tools/list"),
        ("Mcp-Method", "TOOLS/CALL"),
        ("Mcp-Name", None),
        ("Mcp-Name", "why"),
        ("Mcp-Name", "=?base64?b3ZlcnZpZXc?="),
        ("Mcp-Name", "=?base64?////?="),
    ],
)
async def test_header_that_differs_from_the_body_is_refused(api: Api, name: str, value: str | None) -> None:
    message = request("tools/call", MODERN, name="overview", arguments={})
    headers = {**headers_of(message, MODERN), name: value}
    sent = {key: each for key, each in headers.items() if each is not None}
    assert error_of(await api.post(ASSISTANT, message, headers=sent)) == (400, HEADER_MISMATCH, 1)


async def test_repeated_header_is_refused(api: Api) -> None:
    message = request("tools/list", MODERN)
    twice = [*headers_of(message, MODERN).items(), ("Mcp-Method", "tools/list")]
    credential = [("Authorization", str(api.authorization))]
    async with api.client.post(ASSISTANT, json=message, headers=twice + credential) as response:
        assert (response.status, (await response.json())["error"]["code"]) == (400, HEADER_MISMATCH)


async def test_encoded_name_is_decoded(api: Api) -> None:
    message = request("tools/call", MODERN, name="overview", arguments={})
    encoded = f"=?base64?{b64encode(b'overview').decode()}?="
    headers = {**headers_of(message, MODERN), "Mcp-Name": encoded}
    assert (await api.post(ASSISTANT, message, headers=headers)).status == 200


@pytest.mark.parametrize("method", ["server/discover", "initialize", "notifications/initialized"])
async def test_unsupported_version_is_refused_with_those_that_are(api: Api, method: str) -> None:
    for stated in ({}, {"_meta": meta(version="1999-01-01")}):
        message: Any = {"jsonrpc": "2.0", "id": 1, "method": method, "params": stated}
        if method.startswith("notifications/"):
            del message["id"]
        headers = {"MCP-Protocol-Version": "1999-01-01", "Mcp-Method": method}
        answer = await api.post(ASSISTANT, message, headers=headers)
        assert error_of(answer) == (400, UNSUPPORTED_VERSION, message.get("id"))
        assert answer.body["error"]["data"] == {"supported": SUPPORTED, "requested": "1999-01-01"}


async def test_strange_bytes_in_headers_are_refused(service: Service, api: Api) -> None:
    sent = (("MCP-Protocol-Version", LEGACY), ("MCP-Protocol-Version", MODERN), ("Origin", LEGACY))
    for name, version in sent:
        body = json.dumps(request("tools/list", version))
        head = f"POST /mcp/ HTTP/1.1\r\nHost: a\r\nAuthorization: {api.authorization}\r\n{name}: ".encode()
        head += b"\xff\xc3\xa9\r\nContent-Type: application/json\r\nConnection: close\r\n"
        reader, writer = await asyncio.open_connection(*service.address)
        writer.write(head + f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
        status = (await reader.read()).split(b" ", 2)[1]
        assert status == (b"403" if name == "Origin" else b"400")
        writer.close()


async def test_notifications_are_accepted_without_an_answer(api: Api) -> None:
    message = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    for headers in ({}, {"MCP-Protocol-Version": LEGACY}, {"MCP-Protocol-Version": MODERN}):
        answer = await api.post(ASSISTANT, message, headers=headers)
        assert (answer.status, answer.body) == (202, "")


async def test_initialize_agrees_on_a_legacy_version_without_a_session(api: Api) -> None:
    for asked, agreed in ((LEGACY, LEGACY), ("2025-06-18", "2025-06-18"), (MODERN, LEGACY), ("x", LEGACY)):
        params = {"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
        answer = await api.post(ASSISTANT, message)
        assert (answer.status, answer.body["result"]["protocolVersion"]) == (200, agreed)
        assert "Mcp-Session-Id" not in answer.headers
    assert answer.body["result"]["serverInfo"]["name"] == "hostsvc"
    assert answer.body["result"]["capabilities"] == {
        "tools": {},
        "tasks": {"requests": {"tools": {"call": {}}}},
    }
    assert await result_of(api, ASSISTANT, "ping", LEGACY) == {}


async def test_discovery_names_versions_and_capabilities(api: Api) -> None:
    agent = await api.create_agent()
    discovered = await result_of(api, ASSISTANT, "server/discover")
    assert (discovered["supportedVersions"], discovered["resultType"]) == (SUPPORTED, "complete")
    assert discovered["capabilities"] == {
        "tools": {},
        "extensions": {"io.modelcontextprotocol/tasks": {}},
    }
    assert discovered["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "hostsvc"
    assert (await result_of(api, agent_path(agent), "server/discover"))["capabilities"] == {"tools": {}}


async def test_streams_and_sessions_do_not_exist(api: Api, service: Service) -> None:
    for method in ("GET", "DELETE", "PUT"):
        answer = await api.request(method, ASSISTANT, headers={"Accept": "text/event-stream"})
        assert (answer.status, answer.headers["Allow"]) == (405, "POST")
        assert (await service.nobody.request(method, ASSISTANT)).status == 401
    assert (await send(service.nobody, ASSISTANT, "tools/list")).status == 401


async def test_pages_of_other_sites_are_refused(start_service: StartService) -> None:
    service = await start_service(base_url="https://agents.example.com")
    api = await service.new_organization()
    message = request("tools/list", LEGACY)
    for origin, status in (
        ("https://agents.example.com", 200),
        ("http://localhost:6274", 200),
        ("http://127.0.0.1", 200),
        ("http://[::1]:8000", 200),
        ("https://evil.example.com", 403),
        ("http://localhost.example.com", 403),
        ("http://[", 403),
        ("null", 403),
        ("", 403),
    ):
        assert (await api.post(ASSISTANT, message, headers={"Origin": origin})).status == status, origin


@pytest.mark.one_node
async def test_request_limit_is_told_as_everywhere(start_service: StartService) -> None:
    service = await start_service(requests_per_minute=1)
    api = await service.new_organization()
    assert (await send(api, ASSISTANT, "tools/list")).status == 200
    refused = await send(api, ASSISTANT, "tools/list")
    assert (refused.status, list(refused.body)) == (429, ["detail"])


async def test_message_with_surplus_members_is_answered(api: Api) -> None:
    message = {**request("tools/list", LEGACY), "extra": {"nested": [1]}}
    headers = {"MCP-Protocol-Version": LEGACY, "Mcp-Session-Id": "old", "Content-Type": "application/json"}
    answer = await api.request("POST", ASSISTANT, data=json.dumps(message), headers=headers)
    assert answer.status == 200
