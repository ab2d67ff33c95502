"""The tools for a person's assistant, and runs as tasks."""

import asyncio
import json
from typing import Any

import pytest
from mcp_types import methods

from storage.ids import new_id
from storage.parked_calls import CallKind
from tests.web.api.supervision.test_approvals import open_desk
from tests.web.api.toolbox.test_agent_tools import start_run
from tests.web.conftest import Api, Service
from tests.web.mcp.messages import ASSISTANT, LEGACY, MODERN, TASKS, call, result_of, send

ERAS = pytest.mark.parametrize("version", [MODERN, LEGACY])
NAMES = [
    "overview",
    "list_agents",
    "why",
    "timeline",
    "notify",
    "run_agent",
    "get_run",
    "list_runs",
    "get_trace",
    "usage",
    "list_schedules",
    "list_approvals",
    "decide_approval",
]


async def told(api: Api, name: str, **arguments: Any) -> Any:
    """Call a tool and return what it tells, which is no error."""
    result = await call(api, ASSISTANT, name, **arguments)
    assert not result["isError"], result
    return json.loads(result["content"][0]["text"])


async def refused(api: Api, name: str, **arguments: Any) -> Any:
    """Call a tool and return what it tells as an error."""
    result = await call(api, ASSISTANT, name, **arguments)
    assert result["isError"]
    return json.loads(result["content"][0]["text"])


@ERAS
async def test_tools_describe_themselves_and_their_arguments(api: Api, version: str) -> None:
    listed = await result_of(api, ASSISTANT, "tools/list", version)
    methods.validate_server_result("tools/list", version, listed)
    assert [each["name"] for each in listed["tools"]] == NAMES
    for each in listed["tools"]:
        schema = each["inputSchema"]
        assert each["description"]
        assert (schema["type"], schema["additionalProperties"]) == ("object", False)
        assert "$ref" not in json.dumps(schema)
        assert all(argument["description"] for argument in schema["properties"].values()), each
    reads = {each["name"] for each in listed["tools"] if each["annotations"]["readOnlyHint"]}
    assert set(NAMES) - reads == {"notify", "run_agent", "decide_approval"}
    [notify] = [each["inputSchema"] for each in listed["tools"] if each["name"] == "notify"]
    assert notify["required"] == ["agent", "title"]
    assert notify["properties"]["priority"]["enum"] == ["high", "low"]


async def test_tools_tell_what_rest_tells(api: Api) -> None:
    agent = await api.create_agent()
    own = f"/api/cloud/agents/{agent['id']}/"
    schedule = await api.create(
        "/api/defaults/schedules/", agent=agent["id"], cron="0 9 * * *", title="Look at the mail"
    )
    run = (await api.post(f"{own}run/", {})).body["run"]
    of_agent = {"agent": agent["id"]}
    assert (await told(api, "why", **of_agent))["phase"] == "running"
    assert await told(api, "list_agents") == (await api.get("/api/cloud/supervisors/")).body
    assert (await told(api, "list_agents", phase="asleep")) == []
    assert await told(api, "get_run", run=run, wait=0) == (await api.get(f"{own}runs/{run}/")).body
    for arguments in ({}, of_agent, {"active": True}):
        assert [each["id"] for each in await told(api, "list_runs", **arguments)] == [run]
    assert await told(api, "list_runs", needs_person=True) == []
    assert (await told(api, "get_trace", trace=run))["id"] == run
    [listed] = await told(api, "list_schedules", **of_agent)
    assert (listed["id"], listed["says"]) == (schedule["id"], schedule["says"])
    assert (await told(api, "overview"))["phases"] == {"running": 1}
    period = {"start": "2026-01-01T00:00:00Z", "end": "2026-01-02T00:00:00Z"}
    assert (
        await told(api, "timeline", **of_agent, **period)
        == (await api.get(f"{own}timeline/", params=period)).body
    )
    days = {"start_date": "2026-01-01", "end_date": "2026-01-03"}
    assert (
        await told(api, "usage", **of_agent, **days)
        == (await api.get("/api/cloud/usage/", params={**of_agent, **days})).body
    )


async def test_notification_is_like_one_of_rest(api: Api) -> None:
    agent = await api.create_agent()
    notification = await told(api, "notify", agent=agent["id"], title="Call back", body="Ada")
    path = f"/api/defaults/notifications/{notification['id']}/"
    assert (await api.get(path)).body == notification
    assert (notification["priority"], notification["source"]) == ("high", "api")


async def test_approval_is_listed_and_decided_as_over_rest(service: Service, api: Api, other: Api) -> None:
    desk = await open_desk(service, api)
    refund, question = await desk.ask(), await desk.ask(kind=CallKind.QUESTION, tool_id=None, question="Why?")
    listed = await told(api, "list_approvals", agent=desk.agent["id"])
    assert listed == (await api.get("/api/defaults/approvals/?state=pending")).body
    assert {each["id"] for each in listed} == {str(refund.id), str(question.id)}
    assert await told(other, "list_approvals") == []
    of_refund = {"approval": str(refund.id), "approve": True}
    denied = await refused(other, "decide_approval", **of_refund)
    assert denied == {"detail": "You do not have permission to perform this action."}
    assert "answer" in await refused(api, "decide_approval", approval=str(question.id))

    decided = await told(api, "decide_approval", **of_refund, note="Once")
    assert decided == (await api.get(f"/api/defaults/approvals/{refund.id}/")).body
    assert (decided["note"], decided["decided_by"]["type"]) == ("Once", "key")
    again = await refused(api, "decide_approval", approval=str(refund.id), approve=False)
    assert again["detail"].startswith("It was approved by")
    await told(api, "decide_approval", approval=str(question.id), answer="Because")
    assert await told(api, "list_approvals") == []


async def test_call_that_needs_approval_waits_and_is_decided(service: Service, api: Api) -> None:
    desk = await open_desk(service, api, approval="always")
    own = f"/api/cloud/agents/{desk.agent['id']}/mcp/"
    answers = [await call(api, own, "refund", amount=80) for _ in range(2)]
    answers.append(await call(api, own, "refund", LEGACY, amount=80))
    waiting = [json.loads(answer["content"][0]["text"]) for answer in answers]
    assert [each["waiting_for"] for each in waiting] == ["approval"] * 3
    [listed] = await told(api, "list_approvals")
    assert {each["call"] for each in waiting} == {listed["id"]}
    assert (listed["arguments"], listed["tool"]) == ({"amount": 80}, "refund")
    denied = await told(api, "decide_approval", approval=listed["id"], approve=False, note="Too much")
    assert denied["state"] == "denied"


async def test_wrong_arguments_are_told_to_the_model(api: Api, other: Api) -> None:
    agent = await api.create_agent()
    assert await refused(api, "why") == {"agent": ["This field is required."]}
    assert await refused(api, "why", agent="x") == {"agent": ["Must be a valid UUID."]}
    surplus = await refused(api, "why", agent=agent["id"], since="now")
    assert surplus == {"since": ["There is no such argument."]}
    assert await refused(api, "why", agent=str(new_id())) == {"detail": "Not found."}
    assert "at" in await refused(api, "why", agent=agent["id"], at="2999-01-01T00:00:00Z")
    await api.patch(f"/api/cloud/agents/{agent['id']}/", {"status": "archived"})
    assert "archived" in (await refused(api, "run_agent", agent=agent["id"]))["detail"]
    for name in ("why", "timeline", "run_agent", "list_runs", "list_schedules", "usage"):
        answer = await refused(other, name, agent=agent["id"])
        assert answer == {"detail": "You do not have permission to perform this action."}, name
    assert "permission" in (await refused(other, "notify", agent=agent["id"], title="x"))["detail"]


async def test_result_that_is_too_long_says_what_to_do(api: Api) -> None:
    agent = await api.create_agent(tags=["x" * 200 for _ in range(1)])
    for n in range(50):
        await api.create_agent(name=f"{n}", tags=[f"{n}{'x' * 240}{tag}" for tag in range(10)])
    result = await call(api, ASSISTANT, "list_agents", limit=50)
    assert result["isError"]
    assert "too long" in result["content"][0]["text"]
    assert [each["agent"] for each in await told(api, "list_agents", search="Ann")] == [agent["id"]]


async def test_run_that_ends_in_time_is_returned(api: Api) -> None:
    agent = await api.create_agent()
    begun = await told(api, "run_agent", agent=agent["id"], wait=0)
    assert begun["ended_at"] is None
    assert (await told(api, "run_agent", agent=agent["id"], wait=0))["id"] == begun["id"]
    waiting = asyncio.create_task(told(api, "get_run", run=begun["id"]))
    await api.post(f"/api/cloud/agents/{agent['id']}/stop/", {})
    assert (await waiting)["outcome"] == "stopped"
    await api.patch(f"/api/cloud/agents/{agent['id']}/", {"paused": True})
    assert await told(api, "run_agent", agent=agent["id"]) == {"status": "paused", "run": None}


async def test_run_is_a_task_for_modern_clients_that_take_tasks(api: Api, other: Api) -> None:
    agent = await api.create_agent()
    params = {"name": "run_agent", "arguments": {"agent": agent["id"]}}
    task = await result_of(api, ASSISTANT, "tools/call", MODERN, TASKS, **params)
    assert (task["resultType"], task["status"], task["ttlMs"]) == ("task", "working", None)
    of_task = {"taskId": task["taskId"]}
    assert await result_of(api, ASSISTANT, "tasks/get", MODERN, TASKS, **of_task) == {
        **task,
        "resultType": "complete",
    }
    for client, sent in (
        (other, of_task),
        (api, {"taskId": str(new_id())}),
        (api, {"taskId": "x"}),
        (api, {}),
    ):
        answer = await send(client, ASSISTANT, "tasks/get", MODERN, TASKS, **sent)
        assert (answer.status, answer.body["error"]["code"]) == (400, -32602)
        assert answer.body["error"]["message"] == "There is no such task."
    undeclared = await send(api, ASSISTANT, "tasks/get", **of_task)
    assert (undeclared.status, undeclared.body["error"]["code"]) == (400, -32021)
    assert undeclared.body["error"]["data"] == {"requiredCapabilities": {"extensions": {TASKS: {}}}}
    acknowledged = {"resultType": "complete"}
    for method in ("tasks/update", "tasks/cancel", "tasks/cancel"):
        assert await result_of(api, ASSISTANT, method, MODERN, TASKS, **of_task) == acknowledged
    await call(api, ASSISTANT, "get_run", run=task["taskId"])
    ended = await result_of(api, ASSISTANT, "tasks/get", MODERN, TASKS, **of_task)
    assert (ended["status"], "result" in ended) == ("cancelled", False)


async def test_run_is_a_task_for_legacy_clients_that_ask_for_one(api: Api) -> None:
    agent = await api.create_agent()
    params = {"name": "run_agent", "arguments": {"agent": agent["id"]}, "task": {"ttl": 60_000}}
    task = (await result_of(api, ASSISTANT, "tools/call", LEGACY, **params))["task"]
    assert (task["status"], task["ttl"]) == ("working", None)
    of_task = {"taskId": task["taskId"]}
    assert await result_of(api, ASSISTANT, "tasks/get", LEGACY, **of_task) == task
    waiting = asyncio.create_task(result_of(api, ASSISTANT, "tasks/result", LEGACY, **of_task))
    await api.post(f"/api/cloud/agents/{agent['id']}/stop/", {"force": True})
    result = await waiting
    methods.validate_server_result("tools/call", LEGACY, result)
    assert json.loads(result["content"][0]["text"])["id"] == task["taskId"]
    assert result["_meta"] == {"io.modelcontextprotocol/related-task": of_task}
    assert (await result_of(api, ASSISTANT, "tasks/get", LEGACY, **of_task))["status"] == "cancelled"
    for method in ("tasks/list", "tasks/cancel"):
        assert (await send(api, ASSISTANT, method, LEGACY, **of_task)).body["error"]["code"] == -32601
    old = await send(api, ASSISTANT, "tasks/get", "2025-06-18", **of_task)
    assert old.body["error"]["code"] == -32601


async def test_task_that_ended_tells_its_result(api: Api) -> None:
    agent = await api.create_agent()
    run_id, run = await start_run(api, agent)
    await call(run, f"/api/cloud/agents/{agent['id']}/mcp/", "sleep", hours=1)
    legacy = await result_of(api, ASSISTANT, "tasks/get", LEGACY, taskId=run_id)
    assert (legacy["status"], "result" in legacy) == ("completed", False)
    task = await result_of(api, ASSISTANT, "tasks/get", MODERN, TASKS, taskId=run_id)
    assert json.loads(task["result"]["content"][0]["text"])["outcome"] == "slept"
    result = await result_of(api, ASSISTANT, "tasks/result", LEGACY, taskId=run_id)
    assert (result["isError"], result["content"]) == (False, task["result"]["content"])


async def test_run_that_is_not_started_is_no_task(api: Api) -> None:
    agent = await api.create_agent(paused=True)
    params = {"name": "run_agent", "arguments": {"agent": agent["id"]}}
    result = await result_of(api, ASSISTANT, "tools/call", MODERN, TASKS, **params)
    assert (result["resultType"], result["isError"]) == ("complete", True)
    assert json.loads(result["content"][0]["text"]) == {"status": "paused", "run": None}
