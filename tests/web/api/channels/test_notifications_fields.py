"""Bodies and responses of notifications."""

from storage.model import Priority, Source
from storage.notifications.inserts import NewNotification
from tests.web.api.checks import (
    BLANK,
    ID,
    ID_TEXT,
    NOON,
    NOON_TEXT,
    OTHER_ID,
    OTHER_ID_TEXT,
    REQUIRED,
    accept,
    refuse,
    serve,
)
from web.api.channels.notifications import (
    ClearBody,
    NewNotificationBody,
    NotificationChangesBody,
    serialize_notification,
)


def test_new_notification_is_low_and_from_the_api_by_default() -> None:
    assert accept(NewNotificationBody(), {"agent": ID_TEXT, "title": " Hello "}) == {
        "agent_id": ID,
        "title": "Hello",
        "body": "",
        "source": Source.API,
        "source_id": "",
        "priority": Priority.LOW,
        "scheduled_for": None,
    }


def test_title_may_not_be_blank_in_a_change_either() -> None:
    assert refuse(NewNotificationBody(), {"title": " "}) == {"agent": REQUIRED, "title": BLANK}
    assert refuse(NotificationChangesBody(), {"title": ""}, partial=True) == {"title": BLANK}


def test_change_ignores_agent_and_source() -> None:
    body = {"agent": ID_TEXT, "source": "email", "cleared": "1"}
    assert accept(NotificationChangesBody(), body, partial=True) == {"cleared": True}


def test_clear_distinguishes_no_ids_from_an_empty_list() -> None:
    assert "ids" not in accept(ClearBody(), {"agent": ID_TEXT})
    assert accept(ClearBody(), {"agent": ID_TEXT, "ids": []})["ids"] == []


def test_response_of_a_new_notification_is_uncleared() -> None:
    notification = NewNotification(
        id=ID,
        agent_id=OTHER_ID,
        source=Source.SMS,
        source_id="c1",
        title="Hello",
        body="",
        priority=Priority.HIGH,
        created_at=NOON,
        scheduled_for=NOON,
    )
    assert serve(serialize_notification(notification)) == {
        "id": ID_TEXT,
        "agent": OTHER_ID_TEXT,
        "source": "sms",
        "source_id": "c1",
        "title": "Hello",
        "body": "",
        "priority": "high",
        "created_at": NOON_TEXT,
        "scheduled_for": NOON_TEXT,
        "cleared": False,
        "cleared_at": None,
    }
