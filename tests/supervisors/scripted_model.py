"""A model that says what the test wrote, and tools that do what the test wants."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

import orjson

from storage.model import Agent
from supervisors.engine.run import Ask
from supervisors.llm.port import ChatMessage, ChatRole, ModelRequest, ModelResponse, ToolRequest
from supervisors.tools.toolbox import Toolbox

Turn = Sequence[tuple[str, str]] | ModelResponse  # tool calls by name and arguments, or a whole answer


class Script:
    """Says a turn at a time; at the end of the script it thinks for ever."""

    def __init__(self, *turns: Turn) -> None:
        self._turns: list[ModelResponse] = []
        self.say(*turns)
        self.requests: list[ModelRequest] = []
        self.is_thinking = asyncio.Event()
        self.meanwhile: Callable[[], Awaitable[object]] | None = None

    def say(self, *turns: Turn) -> None:
        """Further turns."""
        self._turns.extend(turn if isinstance(turn, ModelResponse) else _calling(turn) for turn in turns)

    async def complete(self, request: ModelRequest) -> ModelResponse:
        self.requests.append(request)
        if self.meanwhile is not None:
            await self.meanwhile()
        if not self._turns:
            self.is_thinking.set()
            await asyncio.Event().wait()
        return self._turns.pop(0)

    @property
    def heard(self) -> tuple[ChatMessage, ...]:
        """The conversation, as the model was shown it last."""
        return self.requests[-1].messages

    def told(self) -> list[str]:
        """What the tools answered, as the model sees it."""
        return [message.text for message in self.heard if message.speaker is ChatRole.TOOL]

    def outcomes(self) -> list[dict[str, Any]]:
        """The same, read."""
        return [orjson.loads(text) for text in self.told()]


class RiggedToolbox(Toolbox):
    """The real toolbox, and in it what the test puts there, by name."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.rigged: dict[str, Callable[[], Awaitable[Any]]] = {}

    async def call(
        self,
        agent: Agent,
        run_id: UUID | None,
        ask: Ask,
        name: str,
        arguments: Mapping[str, Any],
        span_id: UUID | None = None,
    ) -> Any:
        if name in self.rigged:
            return await self.rigged[name]()
        return await super().call(agent, run_id, ask, name, arguments, span_id)


def _calling(calls: Sequence[tuple[str, str]]) -> ModelResponse:
    return ModelResponse("", tuple(ToolRequest(f"call_{n}", *call) for n, call in enumerate(calls)))
