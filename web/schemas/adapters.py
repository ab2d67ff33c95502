"""Adapters: request bodies, queries and responses."""

from datetime import datetime
from typing import Any, TypedDict
from uuid import UUID

from storage.model import Visibility
from storage.toolbox.adapters import Adapter
from web.fields import MAX_SIDE_TEXT, Choice, JsonObject, Line, Text, Url
from web.paging import PageQuery
from web.request.parsing import Body


class AdapterBody(Body):
    """The writable fields. `config_schema` is a JSON Schema (2020-12)."""

    name = Line(required=True, blank=False, max_length=255)
    description = Text(load_default="", max_length=MAX_SIDE_TEXT)
    detail_url = Url(load_default="", max_length=200)
    config_schema = JsonObject(load_default=dict)


class AdapterQuery(PageQuery):
    visibility = Choice(Visibility, load_default=None)


class AdapterResponse(TypedDict):
    id: UUID
    name: str
    description: str
    visibility: Visibility
    organization_id: UUID
    created_at: datetime
    detail_url: str
    config_schema: dict[str, Any]


def serialize_adapter(adapter: Adapter) -> AdapterResponse:
    return {
        "id": adapter.id,
        "name": adapter.name,
        "description": adapter.description,
        "visibility": adapter.visibility,
        "organization_id": adapter.organization_id,
        "created_at": adapter.created_at,
        "detail_url": adapter.detail_url,
        "config_schema": adapter.config_schema,
    }
