"""The port to language models: what a turn asks, and what comes back."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from supervisors.tools.toolkit import ToolDefinition


class ChatRole(StrEnum):
    """Who says a message, in the terms of the chat-completions protocol."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class FinishReason(StrEnum):
    """Why an answer ends where it does, in the terms of the protocol; providers have others, too."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    CONTENT_FILTER = "content_filter"


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """A tool call that a model asks for; `arguments` is the JSON text as the model wrote it."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of the conversation. A tool's message answers the request `tool_call_id`."""

    speaker: ChatRole
    text: str
    tool_requests: tuple[ToolRequest, ...] = ()
    tool_call_id: str = ""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What a turn asks: the next answer of a conversation. `model` is its name at the provider.

    A blank `reasoning_effort` and 0 `thinking_max_tokens` leave it to the model how long it thinks.
    """

    model: str
    messages: tuple[ChatMessage, ...]
    tools: tuple[ToolDefinition, ...] = ()
    reasoning_effort: str = ""
    thinking_max_tokens: int = 0


@dataclass(frozen=True, slots=True)
class ModelResponse:
    """What a model says: text, tool calls, or both. `cached_tokens` is part of `input_tokens`.

    `id`, `model` (which may be more precise than what was asked for) and `finish_reason` are the provider's
    words, blank where it has none.
    """

    text: str
    tool_requests: tuple[ToolRequest, ...]
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    id: str = ""
    model: str = ""
    finish_reason: str = ""

    def as_message(self) -> ChatMessage:
        """The answer as a message of the conversation."""
        return ChatMessage(ChatRole.ASSISTANT, self.text, self.tool_requests)


class Model(Protocol):
    """A provider of models."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """The model's answer; raises RunError. Cancelled, it leaves no call behind."""
        ...
