"""Local times in a body, converted to UTC."""

from collections.abc import Iterable
from datetime import datetime, tzinfo
from typing import Any

from marshmallow import ValidationError

from web.errors import Invalid
from web.fields import to_utc


def localize(body: dict[str, Any], names: Iterable[str], zone: tzinfo) -> None:
    """Convert the datetimes of these fields that came without an offset to UTC, in place."""
    for name in names:
        moment = body.get(name)
        if isinstance(moment, datetime) and moment.tzinfo is None:
            try:
                body[name] = to_utc(moment, zone)
            except ValidationError as error:
                raise Invalid({name: error.messages}) from error
