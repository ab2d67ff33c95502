"""Tools: request bodies, queries and responses."""

from datetime import datetime
from typing import Any, TypedDict
from uuid import UUID

from storage.toolbox.tools import Tool
from web.fields import MAX_SIDE_TEXT, JsonValue, Line, Text, Url, Uuid
from web.paging import PageQuery
from web.request.parsing import Body


class ToolChangesBody(Body):
    """The fields that can be changed; the adapter stays."""

    name = Line(required=True, blank=False, max_length=255)
    description = Text(load_default="", max_length=MAX_SIDE_TEXT)
    parameters = JsonValue(allow_none=True, load_default=None)
    url = Url(load_default="", max_length=200)
    handler = Line(load_default="", max_length=255)
    detail_url = Url(load_default="", max_length=200)


class ToolBody(ToolChangesBody):
    """`parameters` is any JSON value: a JSON Schema is enforced on calls, anything else only shown."""

    adapter_id = Uuid(data_key="adapter", required=True)


class ToolQuery(PageQuery):
    adapter = Uuid(load_default=None)


class ToolResponse(TypedDict):
    id: UUID
    adapter: UUID
    name: str
    description: str
    created_at: datetime
    parameters: Any
    url: str
    handler: str
    detail_url: str


def serialize_tool(tool: Tool) -> ToolResponse:
    return {
        "id": tool.id,
        "adapter": tool.adapter_id,
        "name": tool.name,
        "description": tool.description,
        "created_at": tool.created_at,
        "parameters": tool.parameters,
        "url": tool.url,
        "handler": tool.handler,
        "detail_url": tool.detail_url,
    }
