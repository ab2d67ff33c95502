"""Calls of MCP tools that go on later: tasks and questions, of the SDK's server and of hostile ones."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from aiohttp import web

from hostsvc.outbound.guarded_http import OutboundSettings, open_guarded_http
from storage.ids import new_id
from storage.model import Agent
from storage.parked_calls import CallState, ParkedCall
from storage.postgres.json_values import decoded
from storage.postgres.pool import Pool
from storage.storage import Storage
from supervisors.clock import SystemClock
from supervisors.json_schema.checker import open_schema_checker
from supervisors.maintenance.parked_calls import ParkedCallRunner
from supervisors.policy.parked_calls import Decision, decide
from supervisors.tools.arguments import ToolError
from supervisors.tools.mcp_calls import MAX_POLL_SECONDS
from supervisors.tools.toolset import Toolset
from tests.hostsvc.outbound.test_mcp_client import speaking
from tests.mcp_program import REQUESTED, running
from tests.receiver import Receiver, receiving
from tests.storage.factories import NOW, adapter, stored_agent, tool
from tests.supervisors.maintenance.test_parked_calls import QUEUE, BusyClock

KEEP_DIGEST = "UPDATE parked_call p SET tool_digest = tool_digest(t) FROM tool t WHERE t.id = p.tool_id"
TASK = {"taskId": "t1", "createdAt": "", "lastUpdatedAt": "", "ttlMs": 3_600_000, "pollIntervalMs": 20}
ASKED: dict[str, Any] = {
    "method": "elicitation/create",
    "params": {"message": "Sure?", "requestedSchema": REQUESTED},
}


@dataclass
class Desk:
    """An agent with tools of an MCP server, and what a person and the service do."""

    storage: Storage
    toolset: Toolset
    runner: ParkedCallRunner
    clock: BusyClock
    agent: Agent
    ask: Any = None

    async def call(self, name: str, **arguments: Any) -> Any:
        found = await self.toolset.find(self.agent, name)
        return await self.toolset.use(found, self.agent, None, self.ask, arguments, new_id(), metadata={})

    async def park(self, name: str, **arguments: Any) -> UUID:
        """Call the tool, whose answer comes later, and return the id of the call."""
        answer = await self.call(name, **arguments)
        assert answer["note"].startswith("Waiting for"), answer
        return UUID(answer["call"])

    async def answer(self, call_id: UUID, answer: Any) -> None:
        now = self.clock.now()
        rule = partial(decide, decision=Decision(True, answer=json.dumps(answer)), by="user:1", now=now)
        step = await self.storage.parked_calls.change(call_id, rule, now, actor="user:1")
        assert step is not None
        assert step.refusal == ""

    async def row(self, call_id: UUID) -> ParkedCall:
        call = await self.storage.parked_calls.get(call_id)
        assert call is not None
        return call

    async def pass_to_due(self, call_id: UUID) -> float:
        """Let time pass until the call is due, and have it looked at. Return the seconds."""
        due_at = (await self.row(call_id)).due_at
        assert due_at is not None
        seconds = (due_at - self.clock.now()).total_seconds()
        self.clock.advance(seconds)
        await self.runner.run_once()
        return seconds

    async def notified(self) -> list[tuple[str, str]]:
        return [(row["title"], row["body"]) for row in await self.storage.pool.fetch(QUEUE)]


@pytest.fixture
async def server() -> AsyncIterator[Receiver]:
    async with receiving() as server:
        yield server


@pytest.fixture
async def desk(pool: Pool) -> AsyncIterator[Desk]:
    storage = Storage(pool, on_commit=lambda _: None, sleep=SystemClock().sleep)
    clock, plain = BusyClock(NOW), await stored_agent(pool)
    shop = adapter(plain.organization_id)
    await storage.adapters.insert(shop)
    agent = await stored_agent(pool, plain.organization_id, adapters=(shop.id,))
    async with (
        open_guarded_http(OutboundSettings(allow_private=True), SystemClock()) as outbound,
        open_schema_checker(SystemClock()) as checker,
    ):
        toolset = Toolset(storage, clock, outbound, checker, None)
        ask: Any = None
        make = partial(toolset.make, ask=ask)
        runner = ParkedCallRunner(storage.parked_calls, make, 60, clock, lambda: True)
        yield Desk(storage, toolset, runner, clock, agent)


async def give(desk: Desk, url: str, *names: str, **fields: Any) -> None:
    for name in names:
        new = tool(desk.agent.adapters[0], name=name, url=url, handler=f"mcp:{name}", **fields)
        await desk.storage.tools.insert(new)


def logged(log: Path) -> list[Any]:
    return [json.loads(line) for line in log.read_text().splitlines()]


async def test_task_wakes_the_agent_with_its_result(desk: Desk, tmp_path: Path) -> None:
    log, done = tmp_path / "log", tmp_path / "done"
    async with running("--log", str(log), "--done", str(done)) as url:
        await give(desk, url, "build")
        call_id = await desk.park("build", what="a house")
        pauses = [await desk.pass_to_due(call_id) for _ in range(12)]
        assert pauses[0] == 2.0
        assert pauses[1:3] == [4.0, 8.0]
        assert pauses[-1] == MAX_POLL_SECONDS
        assert await desk.notified() == []
        done.touch()
        await desk.pass_to_due(call_id)
    call = await desk.row(call_id)
    assert (call.state, call.outcome) == (CallState.DONE, "The tool has answered.")
    [(title, body)] = await desk.notified()
    assert title == "build: done"
    assert 'Result: "did build a house"' in body
    assert logged(log) == [["build", {"what": "a house"}]]


async def test_task_that_asks_a_person_goes_on_with_the_answer(desk: Desk, tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with running("--log", str(log)) as url:
        await give(desk, url, "build_if_sure")
        call_id = await desk.park("build_if_sure", what="a house")
        await desk.pass_to_due(call_id)
        asked = await desk.row(call_id)
        assert (asked.kind, asked.state, asked.question) == ("input", CallState.PENDING, "Sure?")
        assert decoded(asked.answer_schema) == REQUESTED
        await desk.answer(call_id, {"sure": True})
        await desk.runner.run_once()
        await desk.pass_to_due(call_id)
    assert (await desk.row(call_id)).state == CallState.DONE
    [(_, body)] = await desk.notified()
    assert 'Result: "did build_if_sure a house"' in body
    update = ["build_if_sure a house", {"sure": {"action": "accept", "content": {"sure": True}}}]
    assert logged(log) == [["build", {"what": "a house"}], ["update", update]]


async def test_question_of_a_tool_is_answered_days_later(desk: Desk, tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with running("--log", str(log)) as url:
        await give(desk, url, "refund")
        call_id = await desk.park("refund", amount=60)
        asked = await desk.row(call_id)
        assert (asked.kind, asked.question) == ("input", "Refund 60?")
        desk.clock.advance(2 * 86_400)
        await desk.runner.run_once()
        await desk.answer(call_id, {"sure": True})
        await desk.runner.run_once()
    assert (await desk.row(call_id)).state == CallState.DONE
    assert 'Result: "refunded 60"' in (await desk.notified())[-1][1]
    answers = {"sure": {"sure": True}}
    assert logged(log) == [["refund", {"amount": 60}], ["refunded", [{"amount": 60}, "the state", answers]]]


async def test_server_that_forgot_its_question_gets_the_same_answer(desk: Desk, tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with running("--log", str(log)) as first, running("--log", str(log)) as restarted:
        await give(desk, first, "refund")
        call_id = await desk.park("refund", amount=60)
        await desk.storage.pool.execute(
            "UPDATE tool SET url = $1", restarted
        )  # with another key for its states
        await desk.storage.pool.execute(KEEP_DIGEST)
        await desk.answer(call_id, {"sure": True})
        await desk.runner.run_once()
    assert (await desk.row(call_id)).state == CallState.DONE
    done = ["refunded", [{"amount": 60}, "the state", {"sure": {"sure": True}}]]
    assert logged(log) == [["refund", {"amount": 60}]] * 2 + [done]


async def test_server_that_forgot_its_question_may_ask_another(desk: Desk, server: Receiver) -> None:
    texts = iter(("Refund?", "Refund really?"))

    async def answer(request: web.Request) -> web.StreamResponse:
        sent = await request.json()
        if "inputResponses" not in sent["params"]:
            asks = {**ASKED, "params": {**ASKED["params"], "message": next(texts)}}
            result = {"resultType": "input_required", "inputRequests": {"a": asks}, "requestState": "s"}
            return await speaking(lambda *_: result)(request)
        error = {"code": -32602, "message": "Invalid or expired requestState"}
        return web.json_response({"jsonrpc": "2.0", "id": sent["id"], "error": error})

    async def route(request: web.Request) -> web.StreamResponse:
        is_call = (await request.json())["method"] == "tools/call"
        return await (answer if is_call else speaking(lambda *_: {}))(request)

    server.answer = route
    await give(desk, server.url, "refund")
    call_id = await desk.park("refund")
    await desk.answer(call_id, {"sure": True})
    await desk.runner.run_once()
    asked = await desk.row(call_id)
    assert (asked.state, asked.question) == (CallState.PENDING, "Refund really?")


async def test_approval_comes_before_the_call_of_an_imported_tool(desk: Desk, tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with running("--log", str(log)) as url:
        await give(desk, url, "build", approval="always")
        call_id = await desk.park("build", what="a house")
        assert (await desk.row(call_id)).kind == "approval"
        assert not log.exists()
        now = desk.clock.now()
        rule = partial(decide, decision=Decision(True), by="user:1", now=now)
        await desk.storage.parked_calls.change(call_id, rule, now)
        await desk.runner.run_once()
        assert (await desk.row(call_id)).state == CallState.WAITING
        await desk.pass_to_due(call_id)
    assert (await desk.row(call_id)).state == CallState.DONE
    assert logged(log) == [["build", {"what": "a house"}]]


@pytest.mark.parametrize(
    ("task", "outcome"),
    [
        ({"taskId": "that of another", "status": "completed", "result": {}}, "for another task than the one"),
        (
            {"status": "failed", "error": {"code": 1, "message": "no\x00wood"}},
            "The task of the tool ended as failed: nowood",
        ),
        ({"status": "cancelled"}, "The task of the tool ended as cancelled."),
        ({"status": "input_required", "inputRequests": {"a": {"method": "roots/list"}}}, "does not have"),
        ({"status": "completed", "result": {"isError": True, "content": []}}, "The tool failed."),
    ],
)
async def test_task_that_goes_wrong_ends_the_call(
    desk: Desk, server: Receiver, task: dict[str, Any], outcome: str
) -> None:
    def answers(method: str, _: Any) -> Any:
        first = {**TASK, "resultType": "task", "status": "working"}
        return first if method == "tools/call" else {**TASK, "resultType": "complete", **task}

    server.answer = speaking(answers)
    await give(desk, server.url, "build")
    call_id = await desk.park("build")
    await desk.pass_to_due(call_id)
    call = await desk.row(call_id)
    assert call.state == CallState.FAILED
    assert outcome in call.outcome
    assert len(await desk.notified()) == 1


async def test_task_of_a_server_that_is_away_is_asked_for_again(desk: Desk) -> None:
    is_known, result = True, {"content": [{"type": "text", "text": "built"}]}

    async def answer(request: web.Request) -> web.StreamResponse:
        sent = await request.json()
        if sent["method"] == "tasks/get" and not is_known:
            error = {"code": -32602, "message": "Unknown task"}
            return web.json_response({"jsonrpc": "2.0", "id": sent["id"], "error": error}, status=400)
        status = {"status": "completed", "result": result} if sent["method"] == "tasks/get" else {}
        kind = "complete" if status else "task"
        return await speaking(lambda *_: {**TASK, "status": "working", "resultType": kind, **status})(request)

    async with receiving() as server:
        server.answer = answer
        port = server.port
        await give(desk, server.url, "build")
        call_id, other = await desk.park("build", what="one"), await desk.park("build", what="two")
    await desk.pass_to_due(call_id)
    away = await desk.row(call_id)
    assert (away.state, decoded(away.remote)["seconds"]) == (CallState.WAITING, 4.0)
    async with receiving(port) as server:
        server.answer = answer
        await desk.pass_to_due(call_id)
        assert (await desk.row(call_id)).state == CallState.DONE
    assert (await desk.row(other)).state == CallState.DONE
    async with receiving(port) as server:
        server.answer = answer
        third = await desk.park("build", what="three")
        is_known = False
        await desk.pass_to_due(third)
    assert (await desk.row(third)).outcome == "The MCP server answered 400: Unknown task"


async def test_task_expires_when_its_server_says(desk: Desk, server: Receiver) -> None:
    server.answer = speaking(
        lambda method, _: {
            **TASK,
            "status": "working",
            "resultType": "task" if method == "tools/call" else "complete",
        }
    )
    await give(desk, server.url, "build")
    call_id = await desk.park("build")
    desk.clock.advance(3_600)
    await desk.runner.run_once()
    assert (await desk.row(call_id)).state == CallState.EXPIRED


async def test_several_questions_are_one_with_an_answer_for_each(desk: Desk, server: Receiver) -> None:
    visit = {
        "method": "elicitation/create",
        "params": {"mode": "url", "message": "Pay", "url": "https://pay/"},
    }
    sent: list[Any] = []

    def answers(_: str, params: Any) -> Any:
        sent.append(params)
        if "inputResponses" in params:
            return {"content": [{"type": "text", "text": "thanks"}]}
        return {"resultType": "input_required", "inputRequests": {"a": ASKED, "b": ASKED, "c": visit}}

    server.answer = speaking(answers)
    await give(desk, server.url, "refund")
    call_id = await desk.park("refund")
    asked = await desk.row(call_id)
    assert asked.question == "Sure?\n\nSure?\n\nPay\nhttps://pay/"
    assert decoded(asked.answer_schema)["required"] == ["a", "b"]
    await desk.answer(call_id, {"a": {"sure": True}, "b": {"sure": False}})
    await desk.runner.run_once()
    assert (await desk.row(call_id)).state == CallState.DONE
    assert "requestState" not in sent[1]
    assert sent[1]["inputResponses"] == {
        "a": {"action": "accept", "content": {"sure": True}},
        "b": {"action": "accept", "content": {"sure": False}},
        "c": {"action": "accept"},
    }


@pytest.mark.parametrize(
    "result",
    [
        {"inputRequests": {}},
        {"inputRequests": {"a": {"method": "sampling/createMessage", "params": {}}}},
        {"inputRequests": {"a": ASKED}, "requestState": "x" * 70_000},
        {
            "inputRequests": {
                "a": {**ASKED, "params": {"message": "?", "requestedSchema": {"x": "y" * 40_000}}}
            }
        },
        {"inputRequests": [1]},
    ],
)
async def test_unusable_question_is_an_error_of_the_call(
    desk: Desk, server: Receiver, result: dict[str, Any]
) -> None:
    server.answer = speaking(lambda *_: {"resultType": "input_required", **result})
    await give(desk, server.url, "refund")
    with pytest.raises(ToolError) as refused:
        await desk.call("refund")
    assert refused.value.code == "unusable_answer"
