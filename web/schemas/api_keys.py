"""API keys: request bodies and responses. Only the response to a creation contains the key itself."""

from datetime import datetime
from typing import TypedDict
from uuid import UUID

from storage.model import ApiKey
from web.fields import Boolean, Line
from web.request.parsing import Body
from web.serializers import Serializer


class NewApiKeyBody(Body):
    """A new API key."""

    name = Line(required=True, blank=False, max_length=255)
    is_active = Boolean(load_default=True)


class ApiKeyChangesBody(Body):
    """The fields of an API key that can be changed; the key itself stays."""

    name = Line(blank=False, max_length=255)
    is_active = Boolean()


class ApiKeyResponse(TypedDict):
    """An API key, without the key itself."""

    id: UUID
    """Chosen by the service."""
    name: str
    """Any name, to tell keys apart."""
    prefix: str
    """The eight characters after `hsk_`, by which you recognize the key in your own settings."""
    is_active: bool
    """Whether the key is accepted; one that is switched off can be switched on again."""
    last_used_at: datetime | None
    """When a request last used the key, to the minute; null if none did."""
    created_at: datetime
    """When the key was created."""


class NewApiKeyResponse(ApiKeyResponse):
    """An API key with the key itself, which no other response contains."""

    key: str | None
    """The key itself, to be sent as `Authorization: Bearer …`. It cannot be read again: the answer to a
    repeated request with the same `Idempotency-Key` has null."""


serialize_api_key = Serializer(ApiKeyResponse, ApiKey)
