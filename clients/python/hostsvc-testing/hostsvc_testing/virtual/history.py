"""The history of a simulation, in order, for the reader of a failed seed."""

import asyncio
from collections.abc import Callable
from uuid import UUID


class History:
    """Lines with the time of each. Agents go by short names."""

    def __init__(self, loop: asyncio.AbstractEventLoop, show_now: Callable[[], str] | None = None) -> None:
        """`show_now` says when something is noted: unless it is given, the seconds since the beginning."""
        began_at = loop.time()
        self._show_now = show_now or (lambda: f"{loop.time() - began_at:9.3f}")
        self._lines: list[str] = []
        self._names: dict[UUID, str] = {}

    def call(self, id_: UUID, name: str) -> None:
        """Show this id by this name."""
        self._names[id_] = name

    def name(self, id_: UUID | None) -> str:
        return "-" if id_ is None else self._names.get(id_, f"#{id_.int}")

    def note(self, line: str) -> None:
        self._lines.append(f"{self._show_now()}  {line}")

    def __str__(self) -> str:
        return "\n".join(self._lines)
