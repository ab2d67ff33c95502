"""Calls the tools that a model asks for in one turn, and tells it what came of each."""

import asyncio
from collections.abc import Sequence
from typing import Any

import orjson
import structlog

from storage.errors import DatabaseUnavailable, LeadershipLost
from storage.postgres.pool import to_json
from supervisors.engine.run import RunError
from supervisors.errors import AgentGone, TryAgainLater
from supervisors.harness.conversation import Conversation
from supervisors.llm.port import ChatMessage, ChatRole, ToolRequest
from supervisors.text import excerpt, shortened
from supervisors.tools.errors import ToolError
from supervisors.tools.sleep import SLEEP
from supervisors.tools.toolbox import Toolbox

log = structlog.get_logger()

RESULT_BYTES = 131_072  # of a result, as the model and the trace see it
AT_ONCE = 100  # calls of one turn that go on side by side

ToolOutcome = dict[str, Any]  # as the model sees it: {"result": ...} or {"error": ...}


class ToolExecutor:
    """Carries out the calls of a turn: side by side, and sleep, which ends the run, after all others."""

    def __init__(self, toolbox: Toolbox) -> None:
        self._toolbox = toolbox

    async def carry_out(self, conversation: Conversation, requests: Sequence[ToolRequest]) -> bool:
        """Add what came of each to the conversation; whether the agent sleeps. A stop cuts all short."""
        work = [request for request in requests if request.name != SLEEP.name]
        for start in range(0, len(work), AT_ONCE):
            some = work[start : start + AT_ONCE]
            outcomes = await conversation.run.interruptible(self._together(conversation, some))
            for request, outcome in zip(some, outcomes, strict=True):
                _tell(conversation, request, outcome)
        for request in requests:
            if request.name == SLEEP.name:
                outcome = await self._call(conversation, request)
                _tell(conversation, request, outcome)
                if "result" in outcome:
                    return True
        return False

    async def _together(
        self, conversation: Conversation, requests: Sequence[ToolRequest]
    ) -> Sequence[ToolOutcome]:
        if len(requests) == 1:  # needs no task of its own
            return [await self._call(conversation, requests[0])]
        calls = (self._call(conversation, request) for request in requests)
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):  # what ends the run; by now all have come to their end
                raise outcome
        return [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]

    async def _call(self, conversation: Conversation, request: ToolRequest) -> ToolOutcome:
        """What the model sees of one call, which is a step of the trace. Raises only what ends the run."""
        name = excerpt(request.name, 255)
        with conversation.recorder.span(f"execute_tool {name}", "tool", conversation.root) as span:
            span.metadata.update(
                {
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": name,
                    "gen_ai.tool.call.id": request.id,
                    "gen_ai.tool.call.arguments": shortened(request.arguments, RESULT_BYTES)[0],
                }
            )
            try:
                result = await self._toolbox.call(
                    conversation.agent,
                    conversation.run.id,
                    conversation.ask,
                    request.name,
                    _parsed(request.arguments),
                    span_id=span.id,
                )
                shown, left_out = shortened(result, RESULT_BYTES)
            except (AgentGone, LeadershipLost, RunError):
                raise
            except Exception as error:
                refusal = _refusal(error, name)
                span.error = refusal.message
                return {"error": refusal.as_json()}
            span.metadata["gen_ai.tool.call.result"] = shown
            return {"result": shown, "left_out": left_out} if left_out else {"result": shown}


def _refusal(error: Exception, name: str) -> ToolError:
    """What the model is told of a call that failed."""
    match error:
        case ToolError():
            return error
        case DatabaseUnavailable() | TryAgainLater():
            return ToolError("unavailable", f"The service cannot do this at the moment: {error}. Try again.")
        case _:
            log.error("a tool failed by a defect", tool=name, exc_info=error)
            return ToolError("internal", "The tool failed by an internal error. The service's log has it.")


def _tell(conversation: Conversation, request: ToolRequest, outcome: ToolOutcome) -> None:
    text = to_json(outcome).decode()
    conversation.messages.append(ChatMessage(ChatRole.TOOL, text, tool_call_id=request.id))


def _parsed(arguments: str) -> dict[str, Any]:
    try:
        parsed = orjson.loads(arguments or "{}")
    except orjson.JSONDecodeError as error:
        raise ToolError("invalid", f"The arguments are not JSON: {error}.") from error
    if not isinstance(parsed, dict):
        raise ToolError("invalid", "The arguments take a JSON object.")
    return parsed
