"""Adapter configs: request bodies, queries and responses."""

from datetime import datetime
from typing import Any, TypedDict
from uuid import UUID

from storage.toolbox.adapter_configs import AdapterConfig
from web.fields import JsonValue, Uuid
from web.paging import PageQuery
from web.request.parsing import Body


class AdapterConfigChangesBody(Body):
    """What can be changed; template and adapter stay."""

    config = JsonValue(load_default=dict)


class AdapterConfigBody(AdapterConfigChangesBody):
    """`config` must fit the adapter's `config_schema`; there is one for each template and adapter."""

    template_id = Uuid(data_key="template", required=True)
    adapter_id = Uuid(data_key="adapter", required=True)


class AdapterConfigQuery(PageQuery):
    template = Uuid(load_default=None)
    adapter = Uuid(load_default=None)


class AdapterConfigResponse(TypedDict):
    id: UUID
    template: UUID
    adapter: UUID
    config: Any
    created_at: datetime
    updated_at: datetime


def serialize_adapter_config(config: AdapterConfig) -> AdapterConfigResponse:
    return {
        "id": config.id,
        "template": config.template_id,
        "adapter": config.adapter_id,
        "config": config.config,
        "created_at": config.created_at,
        "updated_at": config.updated_at,
    }
