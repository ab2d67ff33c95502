"""The port to language models: requests, responses and their parts."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from storage.model import ToolChoice
from supervisors.engine.run import RunError
from supervisors.tools.tool import ToolDefinition

IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
PDF_TYPE = "application/pdf"


class ChatRole(StrEnum):
    """The author of a message, in the terms of the chat-completions protocol."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class FinishReason(StrEnum):
    """The reason why an answer ends, in the terms of the protocol. Providers may send others, too."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    CONTENT_FILTER = "content_filter"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call that a model requests; `arguments` is the JSON text as the model wrote it."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ModelFile:
    """An image or a PDF that goes with a message; `url` is its path in the API."""

    name: str
    content_type: str
    url: str
    content: bytes = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of the conversation. A tool's message answers the request `tool_call_id`."""

    role: ChatRole
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    files: tuple[ModelFile, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """How a model is to answer. A blank, 0 or None leaves it to the model; `tool_choice` needs tools."""

    reasoning_effort: str = ""
    thinking_max_tokens: int = 0
    temperature: float | None = None
    max_output_tokens: int = 0
    tool_choice: ToolChoice = ToolChoice.AUTO
    response_format: dict[str, Any] | None = field(default=None, hash=False)  # a JSON Schema


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A request for the next answer of a conversation. `model` is its name at the provider.

    If the provider streams, `on_text` is called with each piece of the answer's text; no piece is ever taken
    back. Unless it `may_quote`, an error of the call holds nothing of the response, which may repeat the
    request.
    """

    model: str
    messages: tuple[ChatMessage, ...]
    tools: tuple[ToolDefinition, ...] = ()
    options: ModelOptions = ModelOptions()
    on_text: Callable[[str], None] | None = field(default=None, compare=False, repr=False)
    may_quote: bool = True


@dataclass(frozen=True, slots=True)
class ModelResponse:
    """The answer of a model: text, tool calls, or both. `input_tokens` include `cached_tokens`.

    `reasoning` is what the model thought before it answered, as far as the provider shows it; it is recorded,
    and not sent back.

    `id`, `model` (which may be more precise than the requested one) and `finish_reason` are as the provider
    sent them, blank if it sent none. `left_out` are the options that the model refused, by the names of the
    protocol.
    """

    text: str
    tool_calls: tuple[ToolCall, ...]
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    id: str = ""
    model: str = ""
    finish_reason: str = ""
    reasoning: str = ""
    left_out: tuple[str, ...] = ()


class ModelCallFailed(RunError):
    """A call of a model failed; `partial` is what had arrived of its answer, if anything had."""

    def __init__(self, message: str, partial: ModelResponse | None = None) -> None:
        super().__init__(message)
        self.partial = partial


class Model(Protocol):
    """A provider of models."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Return the model's answer, or raise RunError. If it is cancelled, the call ends, too."""
        ...
