"""The port to language models: what a turn asks, and what comes back."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from supervisors.tools.toolkit import ToolDefinition


class Speaker(StrEnum):
    """Who says a message, in the terms of the chat-completions protocol."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """A tool call that a model asks for; `arguments` is the JSON text as the model wrote it."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the conversation. A tool's message answers the request `tool_call_id`."""

    speaker: Speaker
    text: str
    tool_requests: tuple[ToolRequest, ...] = ()
    tool_call_id: str = ""


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """What a model says: text, tool calls, or both. `cached_tokens` is part of `input_tokens`."""

    text: str
    tool_requests: tuple[ToolRequest, ...]
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0

    def as_message(self) -> Message:
        """The answer as a message of the conversation."""
        return Message(Speaker.ASSISTANT, self.text, self.tool_requests)


class Model(Protocol):
    """A provider of models."""

    async def complete(self, model: str, messages: list[Message], tools: list[ToolDefinition]) -> ModelAnswer:
        """The next answer of the conversation; `model` is its name at this provider. Raises RunError."""
        ...
