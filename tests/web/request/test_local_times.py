"""Local times of a body in UTC."""

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from web.errors import Invalid
from web.request.local_times import localize

VIENNA = ZoneInfo("Europe/Vienna")


def test_only_named_times_without_offset_are_converted() -> None:
    local = datetime(2026, 7, 1, 12)  # noqa: DTZ001
    instant = datetime(2026, 7, 1, 12, tzinfo=UTC)
    body: dict[str, Any] = {"start": local, "end": instant, "other": local, "none": None}
    localize(body, ("start", "end", "none", "missing"), VIENNA)
    assert body == {
        "start": datetime(2026, 7, 1, 10, tzinfo=UTC),
        "end": instant,
        "other": local,
        "none": None,
    }


def test_time_that_leaves_calendar_is_refused_by_field() -> None:
    with pytest.raises(Invalid) as refused:
        localize({"start": datetime(1, 1, 1)}, ("start",), VIENNA)  # noqa: DTZ001
    assert refused.value.body == {"start": ["Datetime value out of range."]}
