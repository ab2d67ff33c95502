"""Bodies, queries and responses of adapters."""

from storage.model import Visibility
from storage.toolbox.adapters import Adapter
from tests.web.api.checks import (
    ID,
    ID_TEXT,
    NOON,
    NOON_TEXT,
    ORGANIZATION_ID,
    ORGANIZATION_ID_TEXT,
    REQUIRED,
    accept,
    refuse,
    serve,
)
from web.api.toolbox.adapters import AdapterBody, AdapterQuery, serialize_adapter


def test_adapter_needs_only_a_name() -> None:
    assert refuse(AdapterBody(), {}) == {"name": REQUIRED}
    defaults = {"description": "", "detail_url": "", "config_schema": {}}
    assert accept(AdapterBody(), {"name": "Mail"}) == {"name": "Mail", **defaults}


def test_visibility_and_organization_are_not_writable() -> None:
    body = {"visibility": "public", "organization_id": ID_TEXT}
    assert accept(AdapterBody(), body, partial=True) == {}


def test_query_accepts_only_known_visibilities() -> None:
    assert accept(AdapterQuery(), {"visibility": "public"})["visibility"] is Visibility.PUBLIC
    assert refuse(AdapterQuery(), {"visibility": "mine"}) == {"visibility": ['"mine" is not a valid choice.']}


def test_response_has_every_field() -> None:
    adapter = Adapter(ID, ORGANIZATION_ID, "Mail", "", Visibility.PRIVATE, "", {"type": "object"}, NOON)
    assert serve(serialize_adapter(adapter)) == {
        "id": ID_TEXT,
        "name": "Mail",
        "description": "",
        "visibility": "private",
        "organization_id": ORGANIZATION_ID_TEXT,
        "created_at": NOON_TEXT,
        "detail_url": "",
        "config_schema": {"type": "object"},
    }
