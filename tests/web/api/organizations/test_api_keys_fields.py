"""Bodies and responses of API keys."""

from storage.model import ApiKey
from tests.web.api.checks import (
    ID,
    ID_TEXT,
    NOON,
    NOON_TEXT,
    ORGANIZATION_ID,
    REQUIRED,
    accept,
    refuse,
    serve,
)
from web.api.organizations.api_keys import ApiKeyChangesBody, NewApiKeyBody, serialize_api_key


def test_new_key_needs_a_name_and_is_active() -> None:
    assert refuse(NewApiKeyBody(), {}) == {"name": REQUIRED}
    assert accept(NewApiKeyBody(), {"name": " CI "}) == {"name": "CI", "is_active": True}


def test_change_fills_nothing_in() -> None:
    assert accept(ApiKeyChangesBody(), {"is_active": "false"}, partial=True) == {"is_active": False}


def test_response_contains_only_the_prefix_of_the_key() -> None:
    key = ApiKey(ID, ORGANIZATION_ID, "CI", "abcdefgh", True, None, NOON)
    assert serve(serialize_api_key(key)) == {
        "id": ID_TEXT,
        "name": "CI",
        "prefix": "abcdefgh",
        "is_active": True,
        "last_used_at": None,
        "created_at": NOON_TEXT,
    }
