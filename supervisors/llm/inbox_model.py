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
        messages = request.messages
        calls, results = _last_exchange(messages)
        names = {call.name for call in calls}
        if names == {"list_notifications"}:
            ids = [notification["id"] for notification in results[calls[0].id]["result"]]
            return _clear(len(messages), ids) if ids else _sleep(len(messages))
        if names == {"clear_notification"} and len(calls) < PAGE:
            return _sleep(len(messages))
        return _answer(_tool_call(len(messages), 0, "list_notifications", limit=PAGE))


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


def _clear(turn: int, ids: list[str]) -> ModelResponse:
    calls = (
        _tool_call(turn, position, "clear_notification", notification_id=notification_id)
        for position, notification_id in enumerate(ids)
    )
    return _answer(*calls)


def _sleep(turn: int) -> ModelResponse:
    return _answer(_tool_call(turn, 0, "sleep"))


def _tool_call(turn: int, position: int, name: str, **arguments: Any) -> ToolCall:
    return ToolCall(f"call_{turn}_{position}", name, orjson.dumps(arguments).decode())


def _answer(*calls: ToolCall) -> ModelResponse:
    return ModelResponse("", calls)
