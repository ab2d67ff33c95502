"""Bodies and responses of secrets."""

from storage.agents.secrets import Secret
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
from web.api.organizations.secrets import SecretBody, SecretChangesBody, serialize_secret


def test_secret_needs_name_and_value() -> None:
    assert refuse(SecretBody(), {}) == {"name": REQUIRED, "value": REQUIRED}
    assert accept(SecretBody(), {"name": "KEY", "value": 7}) == {"name": "KEY", "value": "7"}


def test_change_ignores_the_name() -> None:
    body = {"name": "OTHER", "value": " x "}
    assert accept(SecretChangesBody(), body, partial=True) == {"value": " x "}


def test_response_has_no_value() -> None:
    secret = Secret(ID, ORGANIZATION_ID, None, "KEY", NOON, NOON)
    assert serve(serialize_secret(secret)) == {
        "id": ID_TEXT,
        "organization": str(ORGANIZATION_ID),
        "template": None,
        "name": "KEY",
        "created_at": NOON_TEXT,
        "updated_at": NOON_TEXT,
    }
