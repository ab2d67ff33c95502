"""Secrets for code and tools: request bodies and the response, which never contains a value."""

from datetime import datetime
from typing import TypedDict
from uuid import UUID

from storage.agents.secrets import Secret
from web.request.parsing import Body
from web.secret_fields import SecretName, SecretValue
from web.serializers import Serializer


class SecretChangesBody(Body):
    """The field of a secret that can be changed; the name stays."""

    value = SecretValue(required=True)
    """The secret itself, up to 64 KiB and unchanged; no answer contains it."""


class SecretBody(SecretChangesBody):
    """A new secret."""

    name = SecretName(required=True)


class SecretResponse(TypedDict):
    """A secret that code and tools of agents use, without its value, which nobody can read again."""

    id: UUID
    """Chosen by the service."""
    organization: UUID
    """The organization that the secret belongs to."""
    template: UUID | None
    """The template whose agents alone use the secret; null: the agents of all templates of the
    organization."""
    name: str
    """The name of an environment variable, unique in the organization or in the template. A secret of the
    template takes precedence over one of the organization with the same name."""
    created_at: datetime
    """When the secret was created."""
    updated_at: datetime
    """When the value was last set; at first the same as `created_at`."""


serialize_secret = Serializer(SecretResponse, Secret)
