"""API keys: request bodies and responses. Only the response to a creation contains the key itself."""

from datetime import datetime
from typing import TypedDict
from uuid import UUID

from storage.model import ApiKey
from web.fields import Boolean, Line
from web.request.parsing import Body


class NewApiKeyBody(Body):
    name = Line(required=True, blank=False, max_length=255)
    is_active = Boolean(load_default=True)


class ApiKeyChangesBody(Body):
    name = Line(blank=False, max_length=255)
    is_active = Boolean()


class ApiKeyResponse(TypedDict):
    id: UUID
    name: str
    prefix: str
    is_active: bool
    last_used_at: datetime | None
    created_at: datetime


class NewApiKeyResponse(ApiKeyResponse):
    """With the key itself, which no other response contains; null in an answer to a repeated request."""

    key: str | None


def serialize_api_key(key: ApiKey) -> ApiKeyResponse:
    return {
        "id": key.id,
        "name": key.name,
        "prefix": key.prefix,
        "is_active": key.is_active,
        "last_used_at": key.last_used_at,
        "created_at": key.created_at,
    }
