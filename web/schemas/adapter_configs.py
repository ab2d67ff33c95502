"""Adapter configs: request bodies, queries and responses."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypedDict
from uuid import UUID

from storage.toolbox.adapter_configs import AdapterConfig
from web.fields import JsonValue, Uuid
from web.paging import PageQuery
from web.request.parsing import Body
from web.secret_fields import SecretHeaders
from web.serializers import Serializer


class AdapterConfigChangesBody(Body):
    """The fields that can be changed; template and adapter stay."""

    config = JsonValue(load_default=dict)
    secret_headers = SecretHeaders(load_default=dict)


class AdapterConfigBody(AdapterConfigChangesBody):
    """An adapter config. There is at most one for each template and adapter."""

    template_id = Uuid(data_key="template", required=True)
    adapter_id = Uuid(data_key="adapter", required=True)


class AdapterConfigQuery(PageQuery):
    template = Uuid(load_default=None)
    """Only configs of this template."""
    adapter = Uuid(load_default=None)
    """Only configs for this adapter."""


class AdapterConfigResponse(TypedDict):
    """The settings with which the agents of a template use an adapter."""

    id: UUID
    """Chosen by the service."""
    template: UUID
    """The template whose agents use this config."""
    adapter: UUID
    """The adapter that gets this config with each tool call."""
    config: Any
    """A JSON value that fits the adapter's `config_schema`, such as an API key for it; null in the answer to
    a repeated request, and if it cannot be decrypted: then set it again."""
    secret_headers: Mapping[str, str]
    """Headers of each tool call, at most 20, such as `{"Authorization": "CRM_KEY"}`. The value of each is the
    secret of this name of the template, else of the organization; a call fails if there is none."""
    created_at: datetime
    """When the config was created."""
    updated_at: datetime
    """When the config was last changed; at first the same as `created_at`."""


serialize_adapter_config = Serializer(AdapterConfigResponse, AdapterConfig)
