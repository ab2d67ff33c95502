"""The rule behind `activated_at`."""

from datetime import datetime

import pytest

from storage.model import Priority
from storage.notifications.activation import activation
from tests.storage.factories import HOUR, NOW


@pytest.mark.parametrize(
    ("scheduled_for", "expected"), [(None, NOW), (NOW - HOUR, NOW), (NOW + HOUR, NOW + HOUR)]
)
def test_high_notification_is_active_now_or_when_scheduled(
    scheduled_for: datetime | None, expected: datetime
) -> None:
    assert activation(Priority.HIGH, scheduled_for, NOW) == expected


@pytest.mark.parametrize(("priority", "is_cleared"), [(Priority.LOW, False), (Priority.HIGH, True)])
def test_low_or_cleared_notification_is_never_active(priority: Priority, is_cleared: bool) -> None:
    assert activation(priority, NOW, NOW, cleared=is_cleared, since=NOW) is None


def test_active_notification_keeps_its_activation() -> None:
    assert activation(Priority.HIGH, None, NOW, since=NOW - HOUR) == NOW - HOUR
