"""Constraints that failed although all checks had passed, as the errors of the interface."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from storage.errors import AddressTaken, BadAddress, ConstraintError, NotUnique, ReferenceMissing
from web.errors import Invalid
from web.fields import unknown_id


@contextmanager
def refusing_constraint_errors(body: Mapping[str, Any]) -> Iterator[None]:
    """Raise Invalid about the fields of `body` for a constraint that the block violates."""
    try:
        yield
    except ConstraintError as error:
        raise refusal(error, body) from error


def refusal(error: ConstraintError, body: Mapping[str, Any]) -> Invalid:
    """Return the error for a value that was taken, or an id that was deleted, after the checks."""
    match error:
        case NotUnique():
            message = f"The fields {', '.join(error.fields)} must make a unique set."
            return Invalid({"non_field_errors": [message]})
        case ReferenceMissing():
            return Invalid({error.field: [unknown_id(body[f"{error.field}_id"])]})
        case BadAddress():
            return Invalid({error.field: [str(error)]})
        case AddressTaken():
            return Invalid({error.field: [f"{error}."]})
        case _:
            raise error
