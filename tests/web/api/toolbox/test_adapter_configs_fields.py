"""Bodies, queries and responses of adapter configs."""

from datetime import timedelta

from storage.toolbox.adapter_configs import AdapterConfig
from tests.web.api.checks import (
    ID,
    ID_TEXT,
    NOON,
    NOON_TEXT,
    NULL,
    ORGANIZATION_ID,
    OTHER_ID,
    OTHER_ID_TEXT,
    REQUIRED,
    accept,
    refuse,
    serve,
)
from web.api.toolbox.adapters import (
    AdapterConfigBody,
    AdapterConfigChangesBody,
    AdapterConfigQuery,
    serialize_adapter_config,
)


def test_config_needs_template_and_adapter() -> None:
    assert refuse(AdapterConfigBody(), {}) == {"template": REQUIRED, "adapter": REQUIRED}


def test_config_is_an_empty_object_by_default() -> None:
    checked = accept(AdapterConfigBody(), {"template": ID_TEXT, "adapter": OTHER_ID_TEXT})
    assert checked == {"template_id": ID, "adapter_id": OTHER_ID, "config": {}, "secret_headers": {}}


def test_config_may_not_be_null() -> None:
    assert refuse(AdapterConfigChangesBody(), {"config": None}) == {"config": NULL}


def test_change_ignores_template_and_adapter() -> None:
    body = {"template": ID_TEXT, "adapter": ID_TEXT, "config": [1]}
    assert accept(AdapterConfigChangesBody(), body, partial=True) == {"config": [1]}


def test_query_refuses_ids_that_are_no_uuids() -> None:
    messages = ["Must be a valid UUID."]
    assert refuse(AdapterConfigQuery(), {"template": "7", "adapter": ""}) == {
        "template": messages,
        "adapter": messages,
    }


def test_response_names_template_and_adapter_by_id() -> None:
    later = NOON + timedelta(microseconds=1)
    config = AdapterConfig(ID, ORGANIZATION_ID, OTHER_ID, ID, {"port": 1}, NOON, later)
    assert serve(serialize_adapter_config(config)) == {
        "id": ID_TEXT,
        "template": OTHER_ID_TEXT,
        "adapter": ID_TEXT,
        "config": {"port": 1},
        "secret_headers": {},
        "created_at": NOON_TEXT,
        "updated_at": "2026-01-01T12:00:00.000001Z",
    }
