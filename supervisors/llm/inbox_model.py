"""A model that needs no network: `builtin/inbox` lists its notifications, clears each, and sleeps.

It uses the same loop, tools and spans as any other model, so you can try the service with it.
"""

from collections.abc import Sequence
from typing import Any

import orjson

from supervisors.engine.run import RunError
from supervisors.llm.port import ChatMessage, ChatRole, ModelRequest, ModelResponse, ToolCall

PROVIDER = "builtin"
PAGE = 100
UNKNOWN = "There is no model builtin/{}; builtin/inbox is the only one."


class InboxModel:
    """The provider `builtin`."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Return the next tool call: list, then clear all that was listed, then sleep.

        Raise RunError for any model but `inbox`.
        """
        if request.model != "inbox":
            raise RunError(UNKNOWN.format(request.model))
        turn = len(request.messages)
        calls, results = _last_exchange(request.messages)
        names = {call.name for call in calls}
        if names == {"list_notifications"}:
            listed = results[calls[0].id]["result"]
            clears = [("clear_notification", {"notification_id": one["id"]}) for one in listed]
            return _answer(turn, *clears) if clears else _answer(turn, ("sleep", {}))
        if names == {"clear_notification"} and len(calls) < PAGE:
            return _answer(turn, ("sleep", {}))
        return _answer(turn, ("list_notifications", {"limit": PAGE}))


def _last_exchange(messages: Sequence[ChatMessage]) -> tuple[tuple[ToolCall, ...], dict[str, Any]]:
    """Return the latest tool calls and the result of each by call id; a failed list counts as empty.

    Inbox updates are ignored: new notifications are listed when sleep is refused.
    """
    results: dict[str, Any] = {}
    for message in reversed(messages):
        if message.role is ChatRole.TOOL:
            results[message.tool_call_id] = {"result": [], **orjson.loads(message.text)}
        elif message.role is not ChatRole.USER:
            return message.tool_calls, results
    return (), results


def _answer(turn: int, *calls: tuple[str, dict[str, Any]]) -> ModelResponse:
    """Return an answer that calls these tools with these arguments."""
    requested = (
        ToolCall(f"call_{turn}_{position}", name, orjson.dumps(arguments).decode())
        for position, (name, arguments) in enumerate(calls)
    )
    return ModelResponse("", tuple(requested))
