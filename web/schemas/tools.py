"""Tools: request bodies, queries and responses."""

from datetime import datetime
from typing import Any, TypedDict
from uuid import UUID

from storage.toolbox.tools import Tool
from web.fields import MAX_SIDE_TEXT, JsonValue, Line, Text, Url, Uuid
from web.paging import PageQuery
from web.request.parsing import Body
from web.serializers import Serializer


class ToolChangesBody(Body):
    """The fields of a tool that can be changed; its adapter stays."""

    name = Line(required=True, blank=False, max_length=255)
    description = Text(load_default="", max_length=MAX_SIDE_TEXT)
    parameters = JsonValue(allow_none=True, load_default=None)
    url = Url(load_default="", max_length=200)
    handler = Line(load_default="", max_length=255)
    detail_url = Url(load_default="", max_length=200)


class ToolBody(ToolChangesBody):
    """A new tool."""

    adapter_id = Uuid(data_key="adapter", required=True)


class ToolQuery(PageQuery):
    adapter = Uuid(load_default=None)
    """Only tools of this adapter."""


class ToolResponse(TypedDict):
    """Something that an agent can do: a URL of yours to which a call is sent."""

    id: UUID
    """Chosen by the service."""
    adapter: UUID
    """The adapter that the tool belongs to. Agents that have the adapter have the tool."""
    name: str
    """Unique in its adapter. Models see it with `_` for all but letters, digits, `_` and `-`."""
    description: str
    """What the tool does, as models read it; "" if there is none."""
    created_at: datetime
    """When the tool was created."""
    parameters: Any
    """A JSON Schema (2020-12) for objects, which calls must fit; any other value is only shown to models.
    null: no parameters are described."""
    url: str
    """The http or https URL to which calls are sent; "": calls fail with the code `no_url`."""
    handler: str
    """A text of yours that is sent with each call, so that one URL can serve many tools. `channel:<channel>`
    makes the tool deliver messages and hides it from models."""
    detail_url: str
    """An http or https URL with more about it, for people; "" if there is none."""


serialize_tool = Serializer(ToolResponse, Tool)
