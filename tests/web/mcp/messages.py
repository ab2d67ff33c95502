"""Messages of the Model Context Protocol, as clients of both eras send them."""

from typing import Any

from tests.web.conftest import Answer, Api

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
TASKS = "io.modelcontextprotocol/tasks"
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
ASSISTANT = "/mcp/"


def agent_path(agent: Any) -> str:
    return f"/api/cloud/agents/{agent['id']}/mcp/"


def meta(*extensions: str, version: str = MODERN) -> dict[str, Any]:
    capabilities: dict[str, Any] = {"extensions": {name: {} for name in extensions}}
    return {VERSION_KEY: version, CAPABILITIES_KEY: capabilities}


def request(method: str, version: str, *extensions: str, **params: Any) -> dict[str, Any]:
    if version == MODERN:
        params["_meta"] = meta(*extensions)
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def headers_of(message: Any, version: str) -> dict[str, str]:
    headers = {"MCP-Protocol-Version": version}
    if version == MODERN:
        headers["Mcp-Method"] = message["method"]
        name = message["params"].get("name") or message["params"].get("taskId")
        headers |= {"Mcp-Name": name} if name else {}
    return headers


async def send(
    api: Api, path: str, method: str, version: str = MODERN, *extensions: str, **params: Any
) -> Answer:
    """Send a request that is right, and return the answer."""
    message = request(method, version, *extensions, **params)
    return await api.post(path, message, headers=headers_of(message, version))


async def result_of(
    api: Api, path: str, method: str, version: str = MODERN, *extensions: str, **params: Any
) -> Any:
    answer = await send(api, path, method, version, *extensions, **params)
    assert answer.status == 200, answer
    return answer.body["result"]


async def call(api: Api, path: str, name: str, version: str = MODERN, **arguments: Any) -> Any:
    """Call a tool and return the result."""
    return await result_of(api, path, "tools/call", version, name=name, arguments=arguments)
