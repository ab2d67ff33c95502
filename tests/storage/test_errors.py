"""Storage errors: their tree and their messages."""

import inspect

import pytest

from storage import errors
from storage.errors import NotUnique, ReferenceMissing, StorageError


def test_messages_name_the_fields() -> None:
    assert str(NotUnique("adapter", "name")) == "not unique: adapter, name"
    assert str(ReferenceMissing("template")) == "template refers to no row"


@pytest.mark.parametrize(
    "error",
    [item for item in vars(errors).values() if inspect.isclass(item) and issubclass(item, StorageError)],
    ids=lambda item: item.__name__,
)
def test_every_error_stands_in_the_documented_tree(error: type[StorageError]) -> None:
    lines = (errors.__doc__ or "").splitlines()
    path = [base.__name__ for base in error.__mro__ if issubclass(base, StorageError)]
    (number,) = (number for number, line in enumerate(lines) if path[0] in line.split())
    depth = lines[number].index(path[0])
    assert depth == 4 * (len(path) - 1)
    parent = next((line for line in reversed(lines[:number]) if _depth(line) == depth - 4), "")
    assert path[1:2] == [word for word in parent.split() if word.isidentifier()][:1]


def _depth(line: str) -> int:
    return next((position for position, letter in enumerate(line) if letter.isalpha()), -1)
