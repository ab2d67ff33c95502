"""The end of a trace or span, from a request."""

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from storage.history.traces import Ending
from web.api.tracing.spans import check_order, ending_of
from web.errors import Invalid

STARTED = datetime(2026, 7, 1, 12, tzinfo=UTC)
NOW = STARTED + timedelta(minutes=5)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, Ending(NOW)),
        ({"ended_at": STARTED}, Ending(STARTED)),
        ({"ended_at": datetime(2026, 7, 1, 14, 1)}, Ending(STARTED + timedelta(minutes=1))),  # noqa: DTZ001
        ({"name": "n", "error": "e"}, Ending(NOW, "n", "e")),
        ({"metadata": None}, Ending(NOW, has_metadata=True)),
    ],
)
def test_ending_has_what_body_says(body: dict[str, Any], expected: Ending) -> None:
    assert ending_of(body, STARTED, ZoneInfo("Europe/Vienna"), NOW) == expected


def test_end_without_time_is_never_before_start() -> None:
    assert ending_of({}, NOW, UTC, STARTED).ended_at == NOW


def test_end_before_start_is_refused() -> None:
    with pytest.raises(Invalid) as refused:
        ending_of({"ended_at": STARTED - timedelta(microseconds=1)}, STARTED, UTC, NOW)
    assert refused.value.body == {"ended_at": ["Ensure this is not before started_at."]}
    check_order(STARTED, None)
