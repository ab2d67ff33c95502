"""builtin/inbox: a model that needs no network."""

from typing import Any

import orjson

from supervisors.llm.inbox_model import InboxModel
from supervisors.llm.port import ChatMessage, ChatRole, ModelRequest, ModelResponse


class Conversation:
    """A conversation with builtin/inbox in which the test answers the tool calls."""

    def __init__(self) -> None:
        self.messages = [
            ChatMessage(ChatRole.SYSTEM, "Be kind."),
            ChatMessage(ChatRole.USER, "You were woken."),
        ]
        self.answer = ModelResponse("", ())

    async def turn(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the names and arguments of the tool calls that the model makes next."""
        self.answer = await InboxModel().complete(ModelRequest("inbox", tuple(self.messages)))
        self.messages.append(ChatMessage(ChatRole.ASSISTANT, self.answer.text, self.answer.tool_calls))
        return [(call.name, orjson.loads(call.arguments)) for call in self.answer.tool_calls]

    def reply(self, *outcomes: dict[str, Any]) -> None:
        for call, outcome in zip(self.answer.tool_calls, outcomes, strict=True):
            text = orjson.dumps(outcome).decode()
            self.messages.append(ChatMessage(ChatRole.TOOL, text, tool_call_id=call.id))


CLEARED = {"result": {"cleared": True}}
REFUSED = {"error": {"code": "uncleared_high_priority", "message": "Clear them first."}}


async def test_inbox_model_lists_clears_each_and_sleeps() -> None:
    conversation = Conversation()

    assert await conversation.turn() == [("list_notifications", {"limit": 100})]
    conversation.reply({"result": [{"id": "a"}, {"id": "b"}]})
    assert await conversation.turn() == [
        ("clear_notification", {"notification_id": "a"}),
        ("clear_notification", {"notification_id": "b"}),
    ]
    conversation.reply(CLEARED, CLEARED)
    assert await conversation.turn() == [("sleep", {})]


async def test_inbox_model_sleeps_at_once_with_an_empty_queue() -> None:
    conversation = Conversation()
    await conversation.turn()
    conversation.reply({"result": []})

    assert await conversation.turn() == [("sleep", {})]


async def test_inbox_model_lists_again_after_a_refused_sleep() -> None:
    conversation = Conversation()
    await conversation.turn()
    conversation.reply({"result": []})
    await conversation.turn()
    conversation.reply(REFUSED)

    assert await conversation.turn() == [("list_notifications", {"limit": 100})]


async def test_inbox_model_lists_again_after_a_full_page() -> None:
    conversation = Conversation()
    await conversation.turn()
    conversation.reply({"result": [{"id": str(number)} for number in range(100)]})
    assert len(await conversation.turn()) == 100
    conversation.reply(*[CLEARED] * 100)

    assert await conversation.turn() == [("list_notifications", {"limit": 100})]


async def test_inbox_model_takes_a_failed_list_for_empty() -> None:
    conversation = Conversation()
    await conversation.turn()
    conversation.reply({"error": {"code": "invalid", "message": "limit takes an integer."}})

    assert await conversation.turn() == [("sleep", {})]


async def test_tool_calls_of_inbox_model_have_unique_ids() -> None:
    conversation = Conversation()
    await conversation.turn()
    listing = conversation.answer.tool_calls[0].id
    conversation.reply({"result": [{"id": "a"}, {"id": "b"}]})
    await conversation.turn()

    assert len({listing, *(call.id for call in conversation.answer.tool_calls)}) == 3
