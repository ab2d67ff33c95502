"""Scripts: what a model answers, from a YAML file. The README describes the format."""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import orjson

from storage.model import Notification
from supervisors.engine.run import RunError
from supervisors.llm.port import ModelResponse, ToolCall

AHEAD = re.compile(r"\+\s*(\d+(?:\.\d+)?)\s*(second|minute|hour|day|week)s?")
ASLEEP = {"do": ["sleep"]}


class Script:
    """A model of one agent that answers by the script in a file, relative to that of the test."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.items: list[dict[str, Any]] = []
        self._item: dict[str, Any] = ASLEEP
        self._steps: list[Any] = []
        self._contact = ""  # that wrote last

    def answer(self, waiting: Sequence[Notification], now: datetime, *, is_new: bool) -> ModelResponse:
        """Return the next step of the item that fits what waits. Raise RunError if none does."""
        self._contact = next((one.source_id for one in waiting if one.source_id), self._contact)
        if is_new or not self._steps:  # the last run may have died in the middle
            self._item = self._choose(waiting)
            self._steps = list(self._item["do"])
        step = self._steps.pop(0)
        if not self._steps and "when" not in self._item and self._item in self.items:
            self.items.remove(self._item)
        step = {step: {}} if isinstance(step, str) else step
        calls = tuple(
            ToolCall(f"call_{place}", tool, orjson.dumps(arguments).decode())
            for place, (tool, arguments) in enumerate(self._calls(step, waiting, now))
        )
        if self._steps and not calls and "text" not in step:  # what it clears is cleared already
            return self.answer(waiting, now, is_new=False)
        return ModelResponse(step.get("text", ""), calls)

    def _choose(self, waiting: Sequence[Notification]) -> dict[str, Any]:
        shown = "\n".join(f"{one.title}\n{one.body}" for one in waiting)
        for item in self.items:
            if str(item.get("when", "")) in shown:
                return item
        if waiting:
            raise RunError(f"the script {self.name} has no answer to what waits: {shown!r}")
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
        """Return the value of an argument; `$contact` and times such as `+2 days` stand for others."""
        if value == "$contact":
            return self._contact
        ahead = AHEAD.fullmatch(value) if isinstance(value, str) else None
        return value if ahead is None else (now + timedelta(**{f"{ahead[2]}s": float(ahead[1])})).isoformat()


script = Script
