"""Tool execution: the tool calls of one turn, and the messages with their results."""

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import orjson
import structlog

from storage.errors import DatabaseUnavailable, LeadershipLost
from storage.postgres.json_values import to_json
from supervisors.engine.run import RunError
from supervisors.errors import AgentGone, TryAgainLater
from supervisors.harness.conversation import Conversation
from supervisors.harness.trace_recorder import CUT_SHORT
from supervisors.llm.port import ChatMessage, ChatRole, ToolCall
from supervisors.text import excerpt, shorten
from supervisors.tools.arguments import ToolError
from supervisors.tools.builtin.memory import MEMORY
from supervisors.tools.builtin.notifications import CLEAR_NOTIFICATION
from supervisors.tools.builtin.runs import SLEEP
from supervisors.tools.tool import PartialResult
from supervisors.tools.toolset import Toolset

log = structlog.get_logger()

MAX_RESULT_BYTES = 131_072  # of a result, for the model and the trace
MAX_CONVERSATION_CHARACTERS = 8_388_608  # beyond the context of any model; later results are left out
MAX_CONCURRENT_CALLS = 100  # of one turn

CONVERSATION_FULL = ToolError(
    "conversation_full", "The tool was called, but this run's conversation is too long for its result."
)

ToolOutcome = dict[str, Any]  # as the model sees it: {"result": ...} or {"error": ...}


async def execute_tool_calls(
    toolset: Toolset, conversation: Conversation, tool_calls: Sequence[ToolCall]
) -> bool:
    """Add the result of each call to the conversation; return whether the agent sleeps.

    The calls run concurrently, but those of `memory`, which may build on each other, in their order, and
    `sleep`, which ends the run, after all others. A stop of the run cancels the calls, except `sleep`.
    """
    others = [tool_call for tool_call in tool_calls if tool_call.name != SLEEP.name]
    room = MAX_CONVERSATION_CHARACTERS - sum(len(message.text) for message in conversation.messages)
    for start in range(0, len(others), MAX_CONCURRENT_CALLS):
        batch = others[start : start + MAX_CONCURRENT_CALLS]
        outcomes = await conversation.run.interruptible(_call_all(toolset, conversation, batch))
        for tool_call, outcome in zip(batch, outcomes, strict=True):
            room -= _add_outcome(conversation, tool_call, outcome, room)
    for tool_call in tool_calls:
        if tool_call.name == SLEEP.name:
            outcome = await _call(toolset, conversation, tool_call)
            room -= _add_outcome(conversation, tool_call, outcome, room)
            if "result" in outcome:
                return True
    return False


async def _call_all(
    toolset: Toolset, conversation: Conversation, tool_calls: Sequence[ToolCall]
) -> Sequence[ToolOutcome]:
    if len(tool_calls) == 1:  # needs no task of its own
        return [await _call(toolset, conversation, tool_calls[0])]
    memory_turn = asyncio.Lock()  # fair, so that these calls keep their order

    async def call(tool_call: ToolCall) -> ToolOutcome:
        if tool_call.name != MEMORY.name:
            return await _call(toolset, conversation, tool_call)
        async with memory_turn:
            return await _call(toolset, conversation, tool_call)

    outcomes = await asyncio.gather(*map(call, tool_calls), return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):  # it ends the run; by now all calls have finished
            raise outcome
    return [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]


async def _call(toolset: Toolset, conversation: Conversation, tool_call: ToolCall) -> ToolOutcome:
    """Call one tool, as a span of the trace, and return its outcome. Raise only what ends the run."""
    name = excerpt(tool_call.name, 255)
    with conversation.recorder.span(f"execute_tool {name}", "tool", conversation.root) as span:
        span.metadata.update(
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": name,
                "gen_ai.tool.call.id": tool_call.id,
            }
        )
        span.content["gen_ai.tool.call.arguments"] = shorten(tool_call.arguments, MAX_RESULT_BYTES)[0]
        try:
            agent, run_id, ask = conversation.agent, conversation.run.id, conversation.ask
            arguments = _parsed(tool_call.arguments)
            tool = await toolset.find(agent, tool_call.name)
            with conversation.run.waiting_for(f"tool {name}"):
                result = await toolset.use(tool, agent, run_id, ask, arguments, span.id)
            partial = result if isinstance(result, PartialResult) else PartialResult(result, "")
            cut_result, note = shorten(partial.value, MAX_RESULT_BYTES)
            left_out = f"{note} {partial.left_out}".strip()
        except (AgentGone, LeadershipLost, RunError, asyncio.CancelledError):
            conversation.log.record_call(name, CUT_SHORT)
            raise
        except Exception as error:
            refusal = _refusal(error, name)
            span.error = refusal.message
            conversation.log.record_call(name, refusal.message)
            return {"error": refusal.as_json()}
        conversation.log.record_call(name)
        if name == CLEAR_NOTIFICATION.name:
            conversation.log.record_cleared(UUID(result["id"]))
        span.content["gen_ai.tool.call.result"] = cut_result
        return {"result": cut_result, "left_out": left_out} if left_out else {"result": cut_result}


def _refusal(error: Exception, name: str) -> ToolError:
    """Return the error that the model sees for a failed call."""
    match error:
        case ToolError():
            return error
        case DatabaseUnavailable() | TryAgainLater():
            return ToolError("unavailable", f"The service cannot do this at the moment: {error}. Try again.")
        case _:
            log.error("tool crashed", tool=name, exc_info=error)
            return ToolError("internal", "The tool failed with an internal error. The service's log has it.")


def _add_outcome(conversation: Conversation, tool_call: ToolCall, outcome: ToolOutcome, room: int) -> int:
    """Add the outcome, or an error if it has more than `room` characters; return how many were added."""
    text = to_json(outcome).decode()
    if len(text) > room:
        text = to_json({"error": CONVERSATION_FULL.as_json()}).decode()
    conversation.messages.append(ChatMessage(ChatRole.TOOL, text, tool_call_id=tool_call.id))
    return len(text)


def _parsed(arguments: str) -> dict[str, Any]:
    try:
        parsed = orjson.loads(arguments or "{}")
    except orjson.JSONDecodeError as error:
        raise ToolError("invalid", f"The arguments are not JSON: {error}.") from error
    if not isinstance(parsed, dict):
        raise ToolError("invalid", "The arguments must be a JSON object.")
    return parsed
