"""Statements whose shape depends on the request, assembled from constant pieces.

Each piece of SQL text is a constant in the code. Values from a caller are always numbered parameters.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from itertools import count
from typing import TYPE_CHECKING, LiteralString

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

UNCHANGING = frozenset({"id", "organization_id", "created_at"})


@dataclass(frozen=True, slots=True)
class Period:
    """The time from `start` on and before `end`; None leaves that side open."""

    start: datetime | None = None
    end: datetime | None = None


ALWAYS = Period()


class Conditions:
    """Further conditions on the rows of a statement, which has `/* and */` where they belong."""

    def __init__(self, *parameters: object) -> None:
        """Start with the `parameters` that the statement itself uses, from $1 on."""
        self.parameters = list(parameters)
        self._conditions: list[str] = []

    def add(self, condition: LiteralString, *values: object) -> None:
        """Add a condition, in which each `$` stands for the next of its values."""
        first, *rest = condition.split("$")
        text = first
        for value, piece in zip(values, rest, strict=True):
            self.parameters.append(value)
            text += f"${len(self.parameters)}{piece}"
        self._conditions.append(f" AND {text}")

    def add_optional(self, condition: LiteralString, value: object | None) -> None:
        """Add a condition on one value, unless that is None."""
        if value is not None:
            self.add(condition, value)

    def add_period(self, column: LiteralString, period: Period) -> None:
        """Add the condition that the time in a column is in the period."""
        self.add_optional(f"{column} >= $", period.start)
        self.add_optional(f"{column} < $", period.end)

    def into(self, statement: LiteralString) -> str:
        """Return the statement with the conditions at its marks. Raise ValueError if it has no mark."""
        return fill_in(statement, "/* and */", "".join(self._conditions))


def assign(
    statement: LiteralString, changes: Mapping[str, object], model: type["DataclassInstance"], *, after: int
) -> str:
    """Return the UPDATE with `column = $n` for each change at its `/* set */`; `after` is its own last `$n`.

    The values follow in the order of `changes`. Raise the error of `require_changeable`.
    """
    require_changeable(changes, model)
    numbers = count(after + 1)
    assignments = ", ".join(f"{column} = ${next(numbers)}" for column in changes)
    return fill_in(statement, "/* set */", assignments)


def require_changeable(changes: Mapping[str, object], model: type["DataclassInstance"]) -> None:
    """Raise ValueError for a name that is no field of the model, or one that never changes.

    Which of the others a client may change is said by the body that is read from its request.
    """
    changeable = {field.name for field in fields(model)} - UNCHANGING
    if unknown := changes.keys() - changeable:
        raise ValueError(f"these columns must not be changed: {', '.join(sorted(unknown))}")


def fill_in(statement: str, mark: LiteralString, text: str) -> str:
    """Return the statement with `text` at each `mark`. Raise ValueError if it has no such mark."""
    first, *rest = statement.split(mark)
    if not rest:
        # Without this check a statement with a misspelled mark would run without its conditions.
        raise ValueError(f"the statement has no {mark}: {statement}")
    return text.join((first, *rest))
