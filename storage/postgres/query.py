"""Statements whose shape depends on what is asked, put together from constant pieces.

The text of each piece is a constant in the code; what a caller gives travels as a numbered parameter.
"""

from collections.abc import Mapping, Set
from itertools import count
from typing import LiteralString


class Conditions:
    """What rows must fulfil beyond what a statement says itself; they go in where it says `/* and */`."""

    def __init__(self, *parameters: object) -> None:
        """`parameters` are those that the statement names itself, from $1 on."""
        self.parameters = list(parameters)
        self._conditions: list[str] = []

    def add(self, condition: LiteralString, *values: object) -> None:
        """Each `$` of the condition stands for the next of its values."""
        first, *rest = condition.split("$")
        text = first
        for value, piece in zip(values, rest, strict=True):
            self.parameters.append(value)
            text += f"${len(self.parameters)}{piece}"
        self._conditions.append(f" AND {text}")

    def into(self, statement: LiteralString) -> str:
        """The statement with the conditions in their place."""
        return statement.replace("/* and */", "".join(self._conditions))


def assign(statement: LiteralString, changes: Mapping[str, object], columns: Set[str], *, after: int) -> str:
    """The UPDATE with `column = $n` for each change where it says `/* set */`; `after` is its own last `$n`.

    The values follow in the order of `changes`. A name that is not among `columns` is a ValueError.
    """
    if unknown := changes.keys() - columns:
        raise ValueError(f"not columns that may be changed: {', '.join(sorted(unknown))}")
    numbers = count(after + 1)
    return statement.replace("/* set */", ", ".join(f"{column} = ${next(numbers)}" for column in changes))
