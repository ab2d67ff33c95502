"""A model that follows the test's script, and tools that the test replaces."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import orjson

from storage.model import Agent
from supervisors.llm.port import ChatMessage, ChatRole, ModelRequest, ModelResponse, ToolCall
from supervisors.tools.tool import AgentTool, ToolDefinition
from supervisors.tools.toolset import Toolset

Turn = Sequence[tuple[str, str]] | ModelResponse  # tool calls as (name, arguments), or a whole response


class Script:
    """A model that answers with one scripted turn after the other, and never answers after the last."""

    def __init__(self, *turns: Turn) -> None:
        self._turns: list[ModelResponse] = []
        self.say(*turns)
        self.requests: list[ModelRequest] = []
        self.is_thinking = asyncio.Event()
        self.during_call: Callable[[], Awaitable[object]] | None = None

    def say(self, *turns: Turn) -> None:
        """Add turns to the script."""
        self._turns.extend(turn if isinstance(turn, ModelResponse) else _calling(turn) for turn in turns)

    async def complete(self, request: ModelRequest) -> ModelResponse:
        self.requests.append(request)
        if self.during_call is not None:
            await self.during_call()
        if not self._turns:
            self.is_thinking.set()
            await asyncio.Event().wait()
        turn = self._turns.pop(0)
        if request.on_text is not None:
            for word in re.findall(r"\S+\s*", turn.text):
                request.on_text(word)
        return turn

    @property
    def conversation(self) -> tuple[ChatMessage, ...]:
        """Return the messages of the last request to the model."""
        return self.requests[-1].messages

    def tool_answers(self) -> list[str]:
        """Return the answers of the tools, as the model sees them."""
        return [message.text for message in self.conversation if message.role is ChatRole.TOOL]

    def outcomes(self) -> list[dict[str, Any]]:
        """Return the answers of the tools, parsed from JSON."""
        return [orjson.loads(text) for text in self.tool_answers()]


class RiggedToolset(Toolset):
    """The real toolset, in which the test replaces tools by name."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.rigged: dict[str, Callable[[], Awaitable[Any]]] = {}

    async def find(self, agent: Agent, name: str) -> AgentTool:
        if name not in self.rigged:
            return await super().find(agent, name)
        return AgentTool(ToolDefinition(name, "", {}), lambda _: self.rigged[name]())


def _calling(calls: Sequence[tuple[str, str]]) -> ModelResponse:
    return ModelResponse("", tuple(ToolCall(f"call_{n}", *call) for n, call in enumerate(calls)))
