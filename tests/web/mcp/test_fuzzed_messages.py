"""No message, however it is malformed, makes the service fail."""

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.web.conftest import Api
from tests.web.mcp.messages import ASSISTANT, CAPABILITIES_KEY, LEGACY, MODERN, TASKS, VERSION_KEY, agent_path

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
VERSIONS = [MODERN, LEGACY, "2025-03-26", "1999-01-01", ""]
METHODS = ["initialize", "server/discover", "tools/list", "tools/call", "ping", "tasks/get", "tasks/result"]
TOOLS = ["overview", "list_agents", "why", "get_run", "get_time", "list_notifications", "fly", ""]


def often(*values: Any) -> st.SearchStrategy[Any]:
    """Return a strategy for these values, and for any other one now and then."""
    return st.sampled_from(values) | st.sampled_from(values) | JSON


META = st.fixed_dictionaries(
    {},
    optional={
        VERSION_KEY: often(*VERSIONS),
        CAPABILITIES_KEY: often({}, {"extensions": {TASKS: {}}}, {"extensions": None}),
        "io.modelcontextprotocol/clientInfo": often({"name": "t", "version": "1"}),
    },
)
PARAMS = st.fixed_dictionaries(
    {},
    optional={
        "name": often(*TOOLS),
        "arguments": JSON | st.dictionaries(st.sampled_from(["agent", "limit", "wait", "run"]), JSON),
        "taskId": often("01a2240c-fbc1-7430-b55b-fd5be5590d2e"),
        "task": often({"ttl": 1}),
        "cursor": JSON,
        "protocolVersion": often(*VERSIONS),
        "_meta": META | JSON,
    },
)
MESSAGE = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": often("2.0", "2.0", "2.0"),
        "id": often(1, "a", 2**70),
        "method": often(*METHODS),
        "params": PARAMS | PARAMS | JSON,
    },
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=200)
@given(message=MESSAGE | JSON, version=st.sampled_from(VERSIONS), data=st.data())
async def test_no_message_makes_the_service_fail(api: Api, message: Any, version: str, data: Any) -> None:
    agents = (await api.get("/api/cloud/agents/")).body or [await api.create_agent()]
    path = data.draw(st.sampled_from([ASSISTANT, agent_path(agents[0])]))
    headers = {"Content-Type": "application/json", "MCP-Protocol-Version": version}
    if data.draw(st.booleans()) and isinstance(message, dict):
        headers["Mcp-Method"] = data.draw(st.sampled_from(METHODS))
        params = message.get("params")
        name = params.get("name") if isinstance(params, dict) else None
        headers["Mcp-Name"] = (
            name if isinstance(name, str) and name.isascii() and name.isprintable() else "why"
        )
    answer = await api.request("POST", path, data=json.dumps(message), headers=headers)
    assert answer.status in {200, 202, 400, 404}, answer
    if answer.status != 202:
        assert ("error" in answer.body) is not ("result" in answer.body)
