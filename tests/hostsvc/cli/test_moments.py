"""Moments as people type them."""

from datetime import UTC, datetime

import pytest

from hostsvc.cli.moments import FORMS, InvalidMoment, parse_moment

pytestmark = pytest.mark.usefixtures("vienna")

NOW = datetime(2026, 11, 22, 8, 30, tzinfo=UTC)  # 09:30 in Vienna


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("90s", "2026-11-22T08:28:30"),
        ("10m", "2026-11-22T08:20:00"),
        ("10 min", "2026-11-22T08:20:00"),
        ("2h", "2026-11-22T06:30:00"),
        ("2 hours ago", "2026-11-22T06:30:00"),
        ("3 days ago", "2026-11-19T08:30:00"),
        ("1w", "2026-11-15T08:30:00"),
        ("today 03:00", "2026-11-22T02:00:00"),
        ("Yesterday  3:00", "2026-11-21T02:00:00"),
        ("yesterday 23:59:59", "2026-11-21T22:59:59"),
        ("09:00", "2026-11-22T08:00:00"),
        ("10:00", "2026-11-21T09:00:00"),  # not yet today
        ("2026-07-01 12:00", "2026-07-01T10:00:00"),  # in summer
        ("2026-11-21T03:00:00Z", "2026-11-21T03:00:00"),
        ("2026-11-21T03:00:00+05:00", "2026-11-20T22:00:00"),
        ("2026-11-21", "2026-11-20T23:00:00"),
    ],
)
def test_parse_moment_reads_each_form(text: str, moment: str) -> None:
    assert parse_moment(text, NOW) == datetime.fromisoformat(moment).replace(tzinfo=UTC)


def test_parse_moment_reads_all_documented_forms() -> None:
    for text in FORMS.replace(" or ", ", ").split(", "):
        assert parse_moment(text.strip('"'), NOW) < NOW


@pytest.mark.parametrize(
    "text", ["", "soon", "25:00", "yesterday", "10", "10 years", "999999d", "-5m", "0001-01-01T00:00+12:00"]
)
def test_parse_moment_refuses_what_names_no_moment(text: str) -> None:
    with pytest.raises(InvalidMoment, match='is no moment; write it as "10m"'):
        parse_moment(text, NOW)
