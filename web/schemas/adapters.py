"""Adapters: request bodies, queries and responses."""

from datetime import datetime
from typing import Any, TypedDict
from uuid import UUID

from storage.model import Visibility
from storage.toolbox.adapters import Adapter
from web.fields import MAX_SIDE_TEXT, Choice, JsonObject, Line, Text, Url
from web.paging import PageQuery
from web.request.parsing import Body
from web.serializers import Serializer


class AdapterBody(Body):
    """The writable fields of an adapter."""

    name = Line(required=True, blank=False, max_length=255)
    description = Text(load_default="", max_length=MAX_SIDE_TEXT)
    detail_url = Url(load_default="", max_length=200)
    config_schema = JsonObject(load_default=dict)


class AdapterQuery(PageQuery):
    visibility = Choice(Visibility, load_default=None)
    """Only adapters with this visibility."""


class AdapterResponse(TypedDict):
    """A package of tools that agents can be given."""

    id: UUID
    """Chosen by the service; tool calls carry it, so that a server can tell whose call it is."""
    name: str
    """Any name. If tools have the same name, models see some of them with the adapter's name in front."""
    description: str
    """A text for people; "" if there is none."""
    visibility: Visibility
    """Who can see and use it. New adapters are private; an operator can publish one."""
    organization_id: UUID
    """The organization that owns the adapter, and alone may change it."""
    created_at: datetime
    """When the adapter was created."""
    detail_url: str
    """An http or https URL with more about it, for people; "" if there is none."""
    config_schema: dict[str, Any]
    """The JSON Schema (2020-12) that the adapter's configs must fit, without references to other documents;
    {}: any config."""


serialize_adapter = Serializer(AdapterResponse, Adapter)
