"""Ids and titles that count up, so that a seed gives the same ones everywhere."""

from itertools import count
from uuid import UUID


class Ids:
    def __init__(self) -> None:
        self._numbers = count(1)
        self._titles = count(1)

    def new(self) -> UUID:
        return UUID(int=next(self._numbers))

    def title(self) -> str:
        """Return the next title of a notification."""
        return f"n{next(self._titles)}"
