"""Bodies and responses of event webhooks."""

from storage.delivery.webhooks import Webhook
from tests.web.api.checks import (
    ID,
    ID_TEXT,
    NOON,
    NOON_TEXT,
    ORGANIZATION_ID,
    ORGANIZATION_ID_TEXT,
    OTHER_ID,
    OTHER_ID_TEXT,
    accept,
    refuse,
    serve,
)
from web.api.organizations.webhooks import WebhookBody, serialize_webhook


def test_body_needs_only_url_and_types() -> None:
    assert accept(WebhookBody(), {"url": "https://hooks.example/", "types": ["*"]}) == {
        "url": "https://hooks.example/",
        "types": ["*"],
        "agent_id": None,
        "template_id": None,
        "tag": "",
        "description": "",
        "is_active": True,
    }
    assert set(refuse(WebhookBody(), {})) == {"url", "types"}


def test_response_shows_why_it_was_switched_off() -> None:
    webhook = Webhook(
        id=ID,
        organization_id=ORGANIZATION_ID,
        url="https://hooks.example/",
        description="",
        types=("run.*",),
        agent_id=OTHER_ID,
        template_id=None,
        tag="vip",
        is_active=False,
        created_at=NOON,
        updated_at=NOON,
        failing_since=NOON,
        disabled_at=NOON,
        disabled_reason="It failed.",
    )
    assert serve(serialize_webhook(webhook)) == {
        "id": ID_TEXT,
        "organization": ORGANIZATION_ID_TEXT,
        "url": "https://hooks.example/",
        "types": ["run.*"],
        "agent": OTHER_ID_TEXT,
        "template": None,
        "tag": "vip",
        "description": "",
        "is_active": False,
        "created_at": NOON_TEXT,
        "updated_at": NOON_TEXT,
        "failing_since": NOON_TEXT,
        "disabled_at": NOON_TEXT,
        "disabled_reason": "It failed.",
    }
