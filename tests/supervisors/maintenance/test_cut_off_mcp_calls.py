"""Calls of MCP tools whose process dies between any two of its statements: one call, one wake."""

import gc
import json
from collections.abc import Awaitable, Iterator, Sequence
from typing import Any

import pytest

from storage.parked_calls import CallState
from tests.hostsvc.outbound.test_mcp_client import speaking
from tests.mcp_program import REQUESTED
from tests.supervisors.maintenance.test_cut_off_calls import (
    MAX_STATEMENTS,
    TOLD,
    Desk,
    Phase,
    World,
    call,
    world,
)

pytestmark = [
    pytest.mark.slow,
    # A task of the client that is cancelled before its first step leaves this. Only these tests do that.
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),
]

__all__ = ["world"]

TO_MCP = "UPDATE tool SET handler = 'mcp:refund' WHERE handler = ''"
TASK = {"taskId": "t1", "createdAt": "", "lastUpdatedAt": "", "ttlMs": None}
ASKED = {"method": "elicitation/create", "params": {"message": "Sure?", "requestedSchema": REQUESTED}}
PAID = {"content": [{"type": "text", "text": "paid"}]}


@pytest.fixture(autouse=True)
def warned_within_the_test() -> Iterator[None]:
    yield
    gc.collect()


def answer(desk: Desk) -> Awaitable[None]:
    return desk.decide('{"sure": true}')


def task_server(method: str, _: Any) -> Any:
    if method == "tools/call":
        return {**TASK, "resultType": "task", "status": "working"}
    return {**TASK, "resultType": "complete", "status": "completed", "result": PAID}


def asking_server(_: str, params: Any) -> Any:
    if "inputResponses" in params:
        return PAID
    return {"resultType": "input_required", "inputRequests": {"a": ASKED}, "requestState": "s"}


TASKS = (call, Desk.decide, Desk.look, Desk.look)
INPUT = (call, Desk.decide, Desk.look, answer, Desk.look)


@pytest.mark.parametrize("lost", [False, True], ids=["statement lost", "answer lost"])
@pytest.mark.parametrize(
    ("phases", "results", "methods"),
    [(TASKS, task_server, ["tasks/get", "tools/call"]), (INPUT, asking_server, ["tools/call", "tools/call"])],
    ids=["task", "input"],
)
async def test_mcp_call_survives_death_at_any_statement(
    world: World, phases: Sequence[Phase], results: Any, methods: list[str], lost: bool
) -> None:
    world.server.answer = speaking(results)
    for dies_at in range(1, MAX_STATEMENTS):
        agent = await world.agent(is_idempotent=True)
        await world.pool.execute(TO_MCP)
        has_died = await world.go_through(agent, phases, dies_at, lost=lost)

        told = await world.pool.fetchrow(TOLD, agent.id)
        assert told is not None
        seen = {(request.headers.get("Idempotency-Key"), request.body) for request in world.server.requests}
        sent = sorted(json.loads(body)["method"] for _, body in seen)
        assert ([method for method in sent if method != "server/discover"], dict(told)) == (
            methods,
            {"notifications": 1, "wakes": 1, "states": [CallState.DONE]},
        ), f"died at statement {dies_at}"
        if not has_died:
            assert dies_at > 20, "too few statements for the test to show anything"
            return
    raise AssertionError(f"it takes more than {MAX_STATEMENTS} statements")


@pytest.mark.parametrize("phases", [TASKS, INPUT], ids=["task", "input"])
async def test_harmful_mcp_call_is_never_made_twice(world: World, phases: Sequence[Phase]) -> None:
    world.server.answer = speaking(task_server if phases is TASKS else asking_server)
    outcomes = set()
    for dies_at in range(1, MAX_STATEMENTS):
        agent = await world.agent(is_idempotent=False)
        await world.pool.execute(TO_MCP)
        has_died = await world.go_through(agent, await_answers(phases), dies_at, lost=True)

        told = await world.pool.fetchrow(TOLD, agent.id)
        assert told is not None
        assert (told["notifications"], told["wakes"]) == (1, 1), f"died at statement {dies_at}"
        sent = [json.loads(request.body) for request in world.server.requests]
        made = [request["params"] for request in sent if request["method"] == "tools/call"]
        first = [params for params in made if "inputResponses" not in params]
        assert len(first) <= 1, f"died at statement {dies_at}"
        assert len(made) - len(first) <= 1, f"died at statement {dies_at}"
        outcomes |= set(told["states"])
        if not has_died:
            break
    assert outcomes == {CallState.DONE, CallState.FAILED}


def await_answers(phases: Sequence[Phase]) -> list[Phase]:
    """Return the phases, in which nobody answers a call that has ended already."""

    async def answer_if_asked(desk: Desk) -> None:
        pending = "SELECT count(*) FROM parked_call WHERE agent_id = $1 AND state = 'pending'"
        if await desk.storage.pool.fetchval(pending, desk.agent.id):
            await answer(desk)

    return [answer_if_asked if phase is answer else phase for phase in phases]
