"""The history of a simulation, in order, for the reader of a failed seed."""

import asyncio
from uuid import UUID


class History:
    """Lines with the time of each. Agents go by short names."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lines: list[tuple[float, str]] = []
        self._names: dict[UUID, str] = {}
        self._began_at = loop.time()

    def call(self, id_: UUID, name: str) -> None:
        """Show this id by this name."""
        self._names[id_] = name

    def name(self, id_: UUID | None) -> str:
        return "-" if id_ is None else self._names.get(id_, f"#{id_.int}")

    def note(self, line: str) -> None:
        self._lines.append((self._loop.time() - self._began_at, line))

    def __str__(self) -> str:
        return "\n".join(f"{moment:9.3f}  {line}" for moment, line in self._lines)
