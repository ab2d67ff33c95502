"""The columns that the fields of a listed item show."""

from collections.abc import Mapping
from typing import Any, get_type_hints


def columns_of(response: Any, **columns: str) -> Mapping[str, str]:
    """Return the column of each field of a response; those that are not given have the name of the field."""
    return {field: columns.get(field, field) for field in get_type_hints(response)}
