"""Examples for the main job, by operation: requests, and the responses to them."""

from web.openapi.schemas import Json

TEMPLATE = "01a1f880-33c1-7d8e-9a40-1f2b7c6d5e4f"
AGENT = "01a1f880-33df-73ec-b86e-a7ed267184ca"
NOTIFICATION = "01a1f880-342f-7100-9bc3-842bb186abb3"
RUN = "01a1f880-3c2d-7591-91ed-ea2ec5e6e32f"

REQUESTS: dict[str, Json] = {
    "sign_up": {
        "email": "ada@example.org",
        "password": "correct horse battery",
        "organization_name": "Example",
        "name": "Ada",
    },
    "log_in": {"email": "ada@example.org", "password": "correct horse battery"},
    "create_key": {"name": "server"},
    "create_template": {
        "name": "Support",
        "default_model": "builtin/inbox",
        "system_prompt": "You answer customers of a parcel service.",
        "debounce_window_seconds": 60,
    },
    "create_agent": {
        "name": "Grace",
        "model": "builtin/inbox",
        "template": TEMPLATE,
        "timezone": "Europe/Vienna",
        "tags": ["support"],
        "max_sleep_hours": 8,
    },
    "create_notification": {
        "agent": AGENT,
        "title": "The parcel has not come.",
        "source": "sms",
        "priority": "high",
    },
    "run_agent": {"wakeup": True},
    "change_notification": {"cleared": True},
}

ANSWERS: dict[str, object] = {
    "create_notification": {
        "id": NOTIFICATION,
        "agent": AGENT,
        "source": "sms",
        "source_id": "",
        "title": "The parcel has not come.",
        "body": "",
        "priority": "high",
        "created_at": "2026-11-20T10:28:33.967525Z",
        "scheduled_for": None,
        "cleared": False,
        "cleared_at": None,
        "urgent": False,
    },
    "run_agent": {"status": "started", "run": RUN},
    "list_runs": [
        {
            "id": RUN,
            "agent": AGENT,
            "trace": RUN,
            "wake_reason": "notification:sms",
            "notifications": [NOTIFICATION],
            "notification_count": 1,
            "interrupted_sleep_until": None,
            "started_at": "2026-11-20T10:28:36.013826Z",
            "ended_at": "2026-11-20T10:28:36.086186Z",
            "turns": 3,
            "outcome": "slept",
            "error": "",
            "stop_reason": "",
            "output": "",
            "journal": {
                "woken_by": ["New sms from Ada"],
                "cleared": ["New sms from Ada"],
                "cleared_count": 1,
                "sent": [],
                "sent_count": 0,
                "failed_count": 0,
                "tools": [
                    {"name": "list_notifications", "calls": 1, "errors": 0, "last_error": ""},
                    {"name": "clear_notification", "calls": 1, "errors": 0, "last_error": ""},
                ],
                "cost_usd": 0.0,
                "unpriced_calls": 0,
            },
            "failed_calls": 0,
            "needs_person": False,
            "max_sleep_until": "2026-11-20T18:28:36.013826Z",
            "prompt": {"of": "agent", "id": "01a1f8ac-fdd2-7588-b64e-d17cf980d4ff", "version": 1},
        }
    ],
}
