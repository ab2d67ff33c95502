"""Values for the tests of schemas, and checks of bodies and responses."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from marshmallow import ValidationError

from web.json import to_json
from web.request.parsing import Body

ID = UUID(int=1)
ORGANIZATION_ID = UUID(int=2)
OTHER_ID = UUID(int=3)
ID_TEXT = "00000000-0000-0000-0000-000000000001"
ORGANIZATION_ID_TEXT = "00000000-0000-0000-0000-000000000002"
OTHER_ID_TEXT = "00000000-0000-0000-0000-000000000003"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOON_TEXT = "2026-01-01T12:00:00.000000Z"

REQUIRED = ["This field is required."]
BLANK = ["This field may not be blank."]
NULL = ["This field may not be null."]


def accept(schema: Body, values: Mapping[str, Any], *, partial: bool = False) -> dict[str, Any]:
    """Return what the schema makes of the values."""
    return schema.checked(values, partial=partial)


def refuse(schema: Body, values: Mapping[str, Any], *, partial: bool = False) -> dict[str, Any]:
    """Return the messages by field with which the schema refuses the values."""
    with pytest.raises(ValidationError) as caught:
        schema.checked(values, partial=partial)
    return caught.value.messages_dict


def serve(response: object) -> Any:
    """Return the response as a client reads it."""
    return json.loads(to_json(response))
