"""Scripts: what a model answers, from a YAML file. The README describes the format."""

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import yaml

from storage.model import Notification, Source
from supervisors.engine.run import RunError
from supervisors.llm.port import ModelRequest, ModelResponse, ToolCall

AHEAD = re.compile(r"\+\s*(\d+(?:\.\d+)?)\s*(second|minute|hour|day|week)s?")
ASLEEP = {"do": ["sleep"]}
FIRST_MESSAGES = 2  # of a run: the instruction, and what it is told


class Script:
    """A model of one agent that answers by the script in a file, relative to that of the test."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._items: list[dict[str, Any]] = []
        self._item: dict[str, Any] = ASLEEP
        self._steps: list[Any] = []
        self._known = {"$contact": "", "$child": ""}  # who wrote last, and the agent that was created last

    def read(self, folder: Path) -> "Script":
        """Return the script as it is in its file, with all of its items unused."""
        read = Script(self.name)
        read._items = yaml.safe_load((folder / self.name).read_text())
        for item in read._items if isinstance(read._items, list) else [read._items]:
            if not isinstance(item, dict) or not isinstance(item.get("do"), list):
                raise ValueError(f"{self.name} must be a list of items with a list `do`, not {item!r}")
        return read

    async def answer(
        self,
        queue: Callable[[], Awaitable[Sequence[Notification]]],
        now: Callable[[], datetime],
        request: ModelRequest,
    ) -> ModelResponse:
        """Return the next step of the item that fits what waits. Raise RunError if none does."""
        waiting = await queue()
        for one in waiting:
            if one.source_id:
                self._known["$child" if one.source is Source.SYSTEM else "$contact"] = one.source_id
        if len(request.messages) == FIRST_MESSAGES or not self._steps:  # the last run may have died half-way
            self._item = self._choose(waiting)
            self._steps = list(self._item["do"])
        while True:
            step = self._steps.pop(0)
            if not self._steps and "when" not in self._item and self._item in self._items:
                self._items.remove(self._item)
            step = {step: {}} if isinstance(step, str) else step
            calls = [
                ToolCall(f"call_{place}", tool, orjson.dumps(arguments).decode())
                for place, (tool, arguments) in enumerate(self._calls(step, waiting, now()))
            ]
            if calls or "text" in step or not self._steps:  # else all that it clears is cleared already
                return ModelResponse(step.get("text", ""), tuple(calls))

    def _choose(self, waiting: Sequence[Notification]) -> dict[str, Any]:
        shown = "\n".join(f"{one.title}\n{one.body}" for one in waiting)
        for item in self._items:
            if str(item.get("when", "")) in shown:
                return item
        if waiting:
            raise RunError(
                f"the script {self.name} has no answer to what waits: {shown!r}. Add an item for it."
            )
        return ASLEEP

    def _calls(
        self, step: dict[str, Any], waiting: Sequence[Notification], now: datetime
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the calls of a step, which maps tools to arguments, and `clear` to a text."""
        for tool, arguments in step.items():
            if tool == "clear":
                cleared = (one for one in waiting if str(arguments or "") in f"{one.title}\n{one.body}")
                yield from (("clear_notification", {"notification_id": str(one.id)}) for one in cleared)
            elif tool != "text":
                yield tool, {name: self._filled(value, now) for name, value in (arguments or {}).items()}

    def _filled(self, value: Any, now: datetime) -> Any:
        """Return the value of an argument; `$contact`, `$child` and `+2 days` stand for others."""
        ahead = AHEAD.fullmatch(value) if isinstance(value, str) else None
        if ahead is not None:
            return (now + timedelta(**{f"{ahead[2]}s": float(ahead[1])})).isoformat()
        return self._known.get(value, value) if isinstance(value, str) else value


script = Script
