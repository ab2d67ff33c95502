"""Parked calls from the call to the agent's wake: the tool server and the database are real."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from aiohttp import web

from hostsvc.outbound.guarded_http import OutboundSettings, open_guarded_http
from storage.errors import DatabaseUnavailable
from storage.ids import new_id
from storage.model import Agent
from storage.parked_calls import CallState, CallStep, ParkedCall
from storage.postgres.json_values import to_json
from storage.postgres.paging import Page
from storage.postgres.pool import Pool
from storage.storage import Storage
from storage.toolbox import AdapterConfig, Tool
from supervisors.clock import SystemClock
from supervisors.json_schema.checker import SchemaChecker, open_schema_checker
from supervisors.maintenance.due_tasks import DueLook
from supervisors.maintenance.parked_calls import ParkedCallRunner
from supervisors.policy.parked_calls import CallAnswer, Decision, GrantTerms, decide, look, receive_result
from supervisors.tools.arguments import ToolError
from supervisors.tools.parking import GRANT, PARKED_CALL, ResultAddresses
from supervisors.tools.toolset import Toolset
from tests.receiver import Receiver, answering_json, receiving
from tests.storage.factories import HOUR, NOW, adapter, stored_agent, stored_organization, template, tool
from tests.supervisors.held_clock import HeldClock
from tests.supervisors.maintenance.test_due_tasks import again_and_again

AMOUNT = {
    "type": "object",
    "properties": {"amount": {"type": "number"}},
    "required": ["amount"],
    "additionalProperties": False,
}
ABOVE_50 = {"when": {"properties": {"amount": {"exclusiveMinimum": 50}}}}
QUEUE = "SELECT id, title, body, priority, source_id FROM notification ORDER BY created_at, id"
EVENTS = "SELECT type FROM event WHERE type LIKE 'approval.%' ORDER BY id"
APPROVED = Decision(approve=True)
DAY = 24 * HOUR
RESULTS = ResultAddresses("http://service", "secret")


class BusyClock(HeldClock):
    """A held clock on which nobody sleeps."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


@dataclass
class Desk:
    """An agent with the tool `refund` of a real server, and what a person and the service do."""

    storage: Storage
    toolset: Toolset
    runner: ParkedCallRunner
    clock: BusyClock
    agent: Agent
    refund: Tool
    server: Receiver
    ask: Any = None
    metadata: dict[str, Any] = field(default_factory=dict)

    async def call(self, name: str = "refund", **arguments: Any) -> Any:
        """Call the tool as a run does, whose span has the `metadata` of this desk."""
        self.metadata = {}
        found = await self.toolset.find(self.agent, name)
        span_id = new_id()
        return await self.toolset.use(
            found, self.agent, None, self.ask, arguments, span_id, metadata=self.metadata
        )

    async def decide(self, call_id: str, decision: Decision = APPROVED) -> CallStep:
        now = self.clock.now()
        rule = partial(decide, decision=decision, by="user:1", now=now)
        step = await self.storage.parked_calls.change(UUID(call_id), rule, now, actor="user:1")
        assert step is not None
        return step

    async def send_result(self, call_id: str, answer: CallAnswer) -> CallStep:
        now = self.clock.now()
        rule = partial(receive_result, answer=answer, now=now)
        step = await self.storage.parked_calls.change(UUID(call_id), rule, now)
        assert step is not None
        return step

    async def state(self, call_id: str) -> CallState:
        call = await self.storage.parked_calls.get(UUID(call_id))
        assert call is not None
        return call.state

    def calls(self) -> list[tuple[str, Any]]:
        """Return the id and the arguments of the calls that the tool server saw."""
        return [(call.id, call.data["arguments"]) for call in self.server.requests]


@pytest.fixture
def clock() -> BusyClock:
    return BusyClock(NOW)


@pytest.fixture
async def server() -> AsyncIterator[Receiver]:
    async with receiving() as server:
        server.answer = answering_json('{"paid": true}')
        yield server


@pytest.fixture
def storage(pool: Pool) -> Storage:
    return Storage(pool, on_commit=lambda _: None, sleep=SystemClock().sleep)


@pytest.fixture
async def checker() -> AsyncIterator[SchemaChecker]:
    async with open_schema_checker(SystemClock()) as checker:
        yield checker


@pytest.fixture
async def desk(
    storage: Storage, pool: Pool, server: Receiver, clock: BusyClock, checker: SchemaChecker
) -> AsyncIterator[Desk]:
    owner = await stored_organization(pool)
    used, payments = template(owner.id), adapter(owner.id)
    await storage.templates.insert(used)
    await storage.adapters.insert(payments)
    refund = tool(
        payments.id, name="refund", url=server.url, parameters=AMOUNT, is_enforced=True, approval=ABOVE_50
    )
    await storage.tools.insert(refund)
    agent = await stored_agent(
        pool, owner.id, adapters=(payments.id,), template_id=used.id, template_name=used.name
    )
    async with open_guarded_http(OutboundSettings(allow_private=True), SystemClock()) as outbound:
        toolset = Toolset(storage, clock, outbound, checker, None, RESULTS)
        make = partial(toolset.make, ask=None)  # type: ignore[arg-type]  # tools of adapters ask nothing
        runner = ParkedCallRunner(storage.parked_calls, make, toolset.max_call_seconds, clock, lambda: True)
        yield Desk(storage, toolset, runner, clock, agent, refund, server)


async def test_call_that_needs_no_approval_is_made_at_once(desk: Desk, pool: Pool) -> None:
    assert await desk.call(amount=50) == {"paid": True}
    assert await pool.fetchval("SELECT count(*) FROM parked_call") == 0


async def test_approved_call_is_made_days_later_with_the_same_bytes(desk: Desk, pool: Pool) -> None:
    waiting = await desk.call(amount=80.50)
    assert waiting == {
        "waiting_for": "approval",
        "call": waiting["call"],
        "expires_at": "2126-11-28T09:00:00.000000Z",
        "note": "Waiting for a person's approval. You will be woken; go on with other things, or sleep.",
    }
    assert desk.metadata[PARKED_CALL] == waiting["call"]
    await desk.runner.run_once()
    assert desk.calls() == []

    desk.clock.advance(6 * 86_400)
    await desk.decide(waiting["call"])
    await desk.runner.run_once()

    [request] = desk.server.requests
    assert (request.id, request.headers["Idempotency-Key"]) == (waiting["call"], waiting["call"])
    assert json.loads(request.body) == {
        "type": "tool.call",
        "timestamp": "2126-11-27T09:00:00.000000Z",
        "data": {
            "tool_call_id": waiting["call"],
            "adapter": str(desk.refund.adapter_id),
            "tool": "refund",
            "handler": "",
            "agent": str(desk.agent.id),
            "run": None,
            "arguments": {"amount": 80.5},
            "config": None,
            "result": RESULTS.of(UUID(waiting["call"])),
        },
    }
    [told] = await pool.fetch(QUEUE)
    assert told["title"] == "refund: done"
    assert told["body"] == (
        'Your call of refund with {"amount":80.5}: It was approved by user:1 at 2126-11-27 09:00 UTC. '
        'The tool has answered.\n\nResult: {"paid":true}'
    )
    assert told["priority"] == "high"
    assert await desk.state(waiting["call"]) is CallState.DONE
    [span] = await pool.fetch("SELECT metadata FROM span_metadata")
    assert span["metadata"][PARKED_CALL] == waiting["call"]


async def test_pending_call_is_reminded_of_twice_and_expires(desk: Desk, pool: Pool) -> None:
    waiting = await desk.call(amount=80)
    for hour in range(170):
        await desk.runner.run_once()
        if hour == 4:
            assert [row["type"] for row in await pool.fetch(EVENTS)][1:] == ["approval.reminded"]
        desk.clock.advance(3600)

    assert [row["type"] for row in await pool.fetch(EVENTS)] == [
        "approval.requested",
        "approval.reminded",
        "approval.reminded",
        "approval.expired",
    ]
    [told] = await pool.fetch(QUEUE)
    assert told["priority"] == "low"
    assert "Nobody has decided by 2126-11-28 09:00 UTC." in told["body"]
    step = await desk.decide(waiting["call"])
    assert step.refusal == "Nobody has decided by 2126-11-28 09:00 UTC."
    assert desk.calls() == []


async def test_edited_arguments_are_those_of_the_call(desk: Desk, pool: Pool) -> None:
    waiting = await desk.call(amount=80)
    await desk.decide(waiting["call"], Decision(approve=True, arguments='{"amount":60}', note="Less."))
    await desk.runner.run_once()

    assert desk.calls() == [(waiting["call"], {"amount": 60})]
    [told] = await pool.fetch(QUEUE)
    assert 'It was made with changed arguments: {"amount":60}' in told["body"]
    assert "Note: Less." in told["body"]


async def test_denied_call_is_never_made(desk: Desk, pool: Pool) -> None:
    waiting = await desk.call(amount=80)
    await desk.decide(waiting["call"], Decision(approve=False))
    desk.clock.advance(9 * 86_400)
    await desk.runner.run_once()

    assert desk.calls() == []
    assert len(await pool.fetch(QUEUE)) == 1


async def test_failed_call_tells_the_agent_why(desk: Desk, pool: Pool) -> None:
    desk.server.answer = answering_json('"no money"', 402)
    waiting = await desk.call(amount=80)
    await desk.decide(waiting["call"])
    await desk.runner.run_once()

    assert await desk.state(waiting["call"]) is CallState.FAILED
    [told] = await pool.fetch(QUEUE)
    assert 'The tool answered 402: "no money"' in told["body"]


@pytest.mark.parametrize("change", ["deleted", "detached", "changed", "archived"])
async def test_approved_call_is_not_made_after_a_change(desk: Desk, pool: Pool, change: str) -> None:
    waiting = await desk.call(amount=80)
    await desk.decide(waiting["call"])
    if change == "deleted":
        await desk.storage.tools.delete(desk.refund.id)
    elif change == "detached":
        await desk.storage.agents.update(desk.agent.id, {"adapters": ()}, NOW)
    elif change == "changed":
        await desk.storage.tools.update(desk.refund.id, {"description": "Pays twice."})
    else:
        await pool.execute("UPDATE agent_state SET status = 'archived'")
    await desk.runner.run_once()

    assert desk.calls() == []
    assert await desk.state(waiting["call"]) is CallState.WITHDRAWN
    [told] = await pool.fetch(QUEUE)
    assert "It was withdrawn: " in told["body"]


async def test_call_of_a_deleted_agent_is_withdrawn_in_silence(desk: Desk, pool: Pool) -> None:
    await desk.call(amount=80)
    await desk.storage.agents.delete(desk.agent.id, NOW)
    await desk.runner.run_once()

    assert await pool.fetchval("SELECT state FROM parked_call") == "withdrawn"
    assert await pool.fetch(QUEUE) == []


async def test_call_that_ends_after_its_agent_tells_nobody(desk: Desk, pool: Pool) -> None:
    waiting = await desk.call(amount=80)
    await desk.decide(waiting["call"])

    async def delete_agent(_: Any) -> Any:
        await desk.storage.agents.delete(desk.agent.id, NOW)
        return await answering_json("1")(_)

    desk.server.answer = delete_agent
    await desk.runner.run_once()

    assert await pool.fetchval("SELECT state FROM parked_call") == "done"
    assert await pool.fetch(QUEUE) == []


async def test_grant_lets_exactly_its_arguments_through(desk: Desk) -> None:
    waiting = await desk.call(amount=80)
    await desk.decide(waiting["call"], Decision(approve=True, grant=GrantTerms(is_exact=True)))
    await desk.runner.run_once()

    assert await desk.call(amount=80) == {"paid": True}
    [grant] = await desk.storage.approval_grants.list_page((desk.agent.organization_id,), Page())
    assert desk.metadata[GRANT] == str(grant.id)
    assert grant.used_count == 1
    assert "waiting_for" in await desk.call(amount=81)


async def test_grant_with_a_schema_ends_after_its_uses(desk: Desk) -> None:
    waiting = await desk.call(amount=80)
    terms = GrantTerms(
        is_exact=False, schema={"properties": {"amount": {"maximum": 100}}}, until=NOW + DAY, max_uses=2
    )
    await desk.decide(waiting["call"], Decision(approve=True, grant=terms))

    assert await desk.call(amount=90) == {"paid": True}
    assert "waiting_for" in await desk.call(amount=101)
    assert await desk.call(amount=91) == {"paid": True}
    assert "waiting_for" in await desk.call(amount=92)


async def test_grant_ends_with_its_time(desk: Desk) -> None:
    waiting = await desk.call(amount=80)
    terms = GrantTerms(is_exact=False, until=NOW + DAY)
    await desk.decide(waiting["call"], Decision(approve=True, grant=terms))

    assert await desk.call(amount=90) == {"paid": True}
    desk.clock.advance(86_400)
    assert "waiting_for" in await desk.call(amount=90)


async def test_first_approval_is_the_last_one_of_such_a_tool(desk: Desk) -> None:
    await desk.storage.tools.update(desk.refund.id, {"approval": "first_use"})
    waiting = await desk.call(amount=1)
    assert waiting["waiting_for"] == "approval"
    await desk.decide(waiting["call"])

    assert await desk.call(amount=2) == {"paid": True}


async def test_config_of_the_adapter_decides_before_the_tool(desk: Desk) -> None:
    template_id, adapter_id = desk.agent.template_id, desk.refund.adapter_id
    assert template_id is not None
    owner = desk.agent.organization_id
    config = AdapterConfig(new_id(), owner, template_id, adapter_id, {}, NOW, NOW, approval="always")
    await desk.storage.adapter_configs.insert(config)
    assert "waiting_for" in await desk.call(amount=1)
    await desk.storage.adapter_configs.update(config.id, {"approval": "never"}, NOW)
    assert await desk.call(amount=80) == {"paid": True}


async def test_call_needs_approval_if_nobody_can_check_the_condition(
    desk: Desk, checker: SchemaChecker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def find_errors(_: UUID, place: str, *__: Any) -> list[str]:
        too_long = f"$: {place} took too long to check; it is not tried again for 9 s."
        return [too_long] if "approval" in place else []

    monkeypatch.setattr(checker, "find_errors", find_errors)
    assert "waiting_for" in await desk.call(amount=1)


async def test_call_needs_approval_if_the_condition_is_no_schema(desk: Desk) -> None:
    await desk.storage.tools.update(desk.refund.id, {"approval": {"when": {"type": 3}}})
    assert "waiting_for" in await desk.call(amount=1)


async def test_cut_off_call_that_does_harm_twice_is_not_repeated(desk: Desk, pool: Pool) -> None:
    waiting = await desk.call(amount=80)
    await desk.decide(waiting["call"])
    await _claim(desk, waiting["call"])  # the process that made the call is gone
    await desk.runner.run_once()
    assert await desk.state(waiting["call"]) is CallState.CALLING

    desk.clock.advance(600)
    await desk.runner.run_once()

    assert desk.calls() == []
    assert await desk.state(waiting["call"]) is CallState.FAILED
    [told] = await pool.fetch(QUEUE)
    assert "which may or may not have had an effect" in told["body"]


async def test_cut_off_call_of_an_idempotent_tool_is_repeated_with_the_same_bytes(desk: Desk) -> None:
    await desk.storage.tools.update(desk.refund.id, {"idempotent": True})
    waiting = await desk.call(amount=80)
    await desk.decide(waiting["call"])
    claimed = await _claim(desk, waiting["call"])
    await desk.toolset.make(claimed, ask=desk.ask)  # and its answer is lost

    desk.clock.advance(600)
    await desk.runner.run_once()

    first, second = desk.server.requests
    assert (first.body, first.id) == (second.body, second.id)
    assert await desk.state(waiting["call"]) is CallState.DONE


async def _claim(desk: Desk, call_id: str) -> ParkedCall:
    now = desk.clock.now()
    step = await desk.storage.parked_calls.change(UUID(call_id), partial(look, now=now, lease=HOUR / 12), now)
    assert step is not None
    return step.after


async def test_answer_is_stored_when_the_database_is_back(
    desk: Desk, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = await desk.call(amount=80)
    await desk.decide(waiting["call"])
    change, failures = desk.storage.parked_calls.change, [0, 0]

    async def failing(*args: Any) -> CallStep | None:
        if desk.server.requests and failures:
            failures.pop()
            raise DatabaseUnavailable("away")
        return await change(*args)

    monkeypatch.setattr(desk.storage.parked_calls, "change", failing)
    await desk.runner.run_once()

    assert failures == []
    assert len(desk.calls()) == 1
    assert await desk.state(waiting["call"]) is CallState.DONE


async def test_call_that_could_not_be_made_is_made_later(
    desk: Desk, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = await desk.call(amount=80)
    await desk.decide(waiting["call"])

    async def away(_: UUID) -> None:
        raise DatabaseUnavailable("away")

    with monkeypatch.context() as patch:
        patch.setattr(desk.storage.agents, "get", away)
        await desk.runner.run_once()
    assert desk.calls() == []
    assert await desk.state(waiting["call"]) is CallState.DUE
    desk.clock.advance(60)
    await desk.runner.run_once()

    assert len(desk.calls()) == 1


async def test_decision_is_told_before_any_time_passes(desk: Desk, storage: Storage) -> None:
    waiting = await desk.call(amount=80)
    held = HeldClock(desk.clock.now())  # whose sleeps do not end
    look = DueLook(storage.due.get_next, storage.parked_calls.stored, held)
    due = look.when_due("parked_calls", desk.runner.run_once, desk.runner.due)
    loops = [asyncio.create_task(again_and_again(each)) for each in (due, look.run_once)]
    await desk.decide(waiting["call"])
    await desk.server.wait_for(1)
    await storage.pool.finish_writes()
    for loop in loops:
        loop.cancel()
    await asyncio.wait(loops)


async def test_service_that_ends_waits_for_the_answer_to_a_call(desk: Desk, storage: Storage) -> None:
    waiting = await desk.call(amount=80)
    may_answer = asyncio.Event()

    async def answer_late(_: web.Request) -> web.Response:
        await may_answer.wait()
        return web.json_response("paid")

    desk.server.answer = answer_late
    await desk.decide(waiting["call"])
    make, held = partial(desk.toolset.make, ask=desk.ask), HeldClock(NOW)  # whose sleeps do not end
    runner = ParkedCallRunner(storage.parked_calls, make, 60, held, lambda: True)
    looking = asyncio.create_task(runner.run_once())
    await desk.server.wait_for(1)
    looking.cancel()
    may_answer.set()
    await asyncio.wait({looking})

    assert await desk.state(waiting["call"]) is CallState.DONE


async def test_two_nodes_make_an_approved_call_once(desk: Desk, storage: Storage) -> None:
    waiting = await desk.call(amount=80)
    await desk.decide(waiting["call"])
    make = partial(desk.toolset.make, ask=desk.ask)
    other = ParkedCallRunner(storage.parked_calls, make, 60, desk.clock, lambda: True)
    await asyncio.gather(desk.runner.run_once(), other.run_once())

    assert len(desk.calls()) == 1


async def test_node_without_the_chores_makes_no_call(desk: Desk, storage: Storage) -> None:
    waiting = await desk.call(amount=80)
    await desk.decide(waiting["call"])
    make = partial(desk.toolset.make, ask=desk.ask)
    await ParkedCallRunner(storage.parked_calls, make, 60, desk.clock, lambda: False).run_once()

    assert desk.calls() == []


# Asynchronous tools


async def test_late_result_wakes_the_agent_once(desk: Desk, pool: Pool) -> None:
    desk.server.answer = answering_json('{"expires_in": 86400}', 202)
    waiting = await desk.call(amount=10)
    assert waiting["waiting_for"] == "result"
    assert waiting["expires_at"] == "2126-11-22T09:00:00.000000Z"
    desk.clock.advance(80_000)
    await desk.runner.run_once()

    first = await desk.send_result(waiting["call"], CallAnswer({"paid": 10}))
    again = await desk.send_result(waiting["call"], CallAnswer({"paid": 10}))
    other = await desk.send_result(waiting["call"], CallAnswer({"paid": 11}))

    assert (first.refusal, again.refusal) == ("", "")
    assert other.refusal == "The call takes no result: The tool has answered."
    [told] = await pool.fetch(QUEUE)
    assert 'Result: {"paid":10}' in told["body"]
    assert len(desk.calls()) == 1
    assert await pool.fetch(EVENTS) == []


async def test_call_whose_late_result_cannot_be_kept_may_have_had_an_effect(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.parked_calls.MAX_OPEN_PER_AGENT", 0)
    desk.server.answer = answering_json('{"expires_in": 60}', status=202)

    with pytest.raises(ToolError, match="may have an effect"):
        await desk.call(amount=30)

    assert len(desk.server.requests) == 1


async def test_late_result_expires(desk: Desk, pool: Pool) -> None:
    desk.server.answer = answering_json('{"expires_in": 60}', 202)
    waiting = await desk.call(amount=10)
    desk.clock.advance(60)
    late = await desk.send_result(waiting["call"], CallAnswer(1))

    assert late.refusal == "refund has not sent its result by 2126-11-21 09:01 UTC."
    assert await desk.state(waiting["call"]) is CallState.EXPIRED
    [told] = await pool.fetch(QUEUE)
    assert told["priority"] == "low"


async def test_error_of_an_asynchronous_tool_wakes_the_agent(desk: Desk, pool: Pool) -> None:
    desk.server.answer = answering_json('{"expires_in": 60}', 202)
    waiting = await desk.call(amount=10)
    await desk.send_result(waiting["call"], CallAnswer(error="The bank is closed."))

    assert await desk.state(waiting["call"]) is CallState.FAILED
    [told] = await pool.fetch(QUEUE)
    assert "The bank is closed." in told["body"]


async def test_approved_call_may_be_answered_later(desk: Desk, pool: Pool) -> None:
    desk.server.answer = answering_json('{"expires_in": 86400}', 202)
    waiting = await desk.call(amount=80)
    await desk.decide(waiting["call"])
    await desk.runner.run_once()
    assert await desk.state(waiting["call"]) is CallState.WAITING
    assert await pool.fetch(QUEUE) == []

    await desk.send_result(waiting["call"], CallAnswer("paid"))
    await desk.runner.run_once()

    assert len(desk.calls()) == 1
    [told] = await pool.fetch(QUEUE)
    assert "It was approved by user:1" in told["body"]


async def test_result_that_comes_before_the_202_is_stored_counts(desk: Desk, pool: Pool) -> None:
    waiting = await desk.call(amount=80)
    await desk.decide(waiting["call"])
    claimed = await _claim(desk, waiting["call"])
    await desk.send_result(waiting["call"], CallAnswer("paid"))
    desk.clock.advance(600)
    await desk.runner.run_once()

    assert claimed.state is CallState.CALLING
    assert await desk.state(waiting["call"]) is CallState.DONE
    assert len(await pool.fetch(QUEUE)) == 1


@pytest.mark.parametrize("expires_in", ["0", "2592001", '"60"', "1.5", "true", "null"])
async def test_202_with_a_bad_expiry_is_an_error(desk: Desk, expires_in: str) -> None:
    desk.server.answer = answering_json(f'{{"expires_in": {expires_in}}}', 202)
    with pytest.raises(ToolError, match="202 with an expires_in that is no integer"):
        await desk.call(amount=10)


@pytest.mark.parametrize("answer", ['{"ok": true}', "[1]", "1"])
async def test_202_without_an_expiry_is_a_result(desk: Desk, answer: str) -> None:
    desk.server.answer = answering_json(answer, 202)
    assert await desk.call(amount=10) == json.loads(answer)


# Questions


async def test_answer_to_a_question_wakes_the_agent(desk: Desk, pool: Pool) -> None:
    question = {"question": "Which colour?", "schema": {"enum": ["red", "blue"]}}
    waiting = await desk.call("ask_person", **question)
    assert waiting["waiting_for"] == "answer"
    assert await desk.call("ask_person", **question) == waiting
    desk.clock.advance(2 * 86_400)
    await desk.decide(waiting["call"], Decision(approve=True, answer=to_json("red").decode()))
    await desk.runner.run_once()

    [told] = await pool.fetch(QUEUE)
    assert told["body"] == (
        'Your question "Which colour?": It was answered by user:1 at 2126-11-23 09:00 UTC.\n\nAnswer: "red"'
    )
    events = [row["type"] for row in await pool.fetch(EVENTS)]
    assert events == ["approval.requested", "approval.decided"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"question": " "}, "question takes a text that is not blank"),
        ({"question": "x" * 10_001}, "question takes at most 10000 characters"),
        ({"question": "Why?", "schema": [1]}, "schema takes a JSON Schema"),
        ({"question": "Why?", "schema": False}, "schema takes a JSON Schema"),
        ({"question": "Why?", "schema": {"type": "colour"}}, "schema: "),
        ({"question": "Why?", "schema": {"$ref": "http://x/"}}, "may not leave the document"),
        ({"question": "Why?", "contact": str(new_id())}, "You have no contact"),
    ],
)
async def test_bad_question_is_refused(desk: Desk, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ToolError, match=message):
        await desk.call("ask_person", **arguments)
