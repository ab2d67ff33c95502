"""The values of the port to language models."""

from supervisors.llm.port import ChatMessage, ChatRole, ModelResponse, ToolCall


def test_response_becomes_a_message_of_the_assistant() -> None:
    calls = (ToolCall("call_1", "sleep", "{}"),)

    assert ModelResponse("Good night.", calls, input_tokens=7).as_message() == ChatMessage(
        ChatRole.ASSISTANT, "Good night.", calls
    )
