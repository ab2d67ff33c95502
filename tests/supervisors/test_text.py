"""Texts of others: cuts, quotes, hidden secrets; and instants as text."""

from datetime import UTC, datetime, timedelta, timezone

import orjson
import pytest

from supervisors.text import (
    MAX_HIDDEN_WORDS,
    cut,
    excerpt,
    format_local,
    format_timestamp,
    hide,
    quoted,
    shorten,
    storable,
)


def test_shorten_keeps_a_value_that_fits() -> None:
    assert shorten({"a": ["b"]}, 100) == ({"a": ["b"]}, "")


def test_shorten_cuts_long_texts_first() -> None:
    value = [{"id": "7", "body": "x" * 9_000}] * 3
    cut, left_out = shorten(value, 5_000)
    assert cut == [{"id": "7", "body": f"{'x' * 1_000}… (cut: 1000 of 9000 characters)"}] * 3
    assert left_out == "It was too long: texts of more than 1000 characters were cut."


def test_shorten_keeps_ids_of_a_page_of_notifications() -> None:
    page = [{"id": f"{n:036}", "title": "🦊" * 255, "body": "🦊" * 100_000} for n in range(100)]
    cut, _ = shorten(page, 131_072)
    assert [item["id"] for item in cut] == [item["id"] for item in page]
    assert len(orjson.dumps(cut)) <= 131_072


def test_shorten_returns_the_beginning_as_a_last_resort() -> None:
    cut, left_out = shorten(list(range(1_000)), 50)
    assert cut == orjson.dumps(list(range(1_000)))[:50].decode()
    assert left_out.endswith("the beginning of its JSON, 50 of 3891 bytes.")


def test_excerpt_is_one_line() -> None:
    assert excerpt("<html>\n  <b>Bad\0 gateway</b>", 10) == "<html> <b>…"


def test_storable_removes_nul_and_lone_surrogates() -> None:
    assert storable("a\0b\ud800c") == "ab?c"


def test_cut_tells_the_length_of_a_longer_text() -> None:
    assert cut("abc", 3) == "abc"
    assert cut("abcd", 3) == "abc… (cut: 3 of 4 characters)"


def test_quoted_text_stays_on_one_line() -> None:
    text = 'a"\n\u2028\u2029\x85{"b'
    assert quoted(text) == r'"a\"\n\u2028\u2029\u0085{\"b"'
    assert orjson.loads(quoted([text])) == [text]


def test_instant_is_written_in_utc_with_microseconds() -> None:
    assert format_timestamp(datetime(2026, 11, 21, 9, tzinfo=UTC)) == "2026-11-21T09:00:00.000000Z"
    eastward = timezone(timedelta(hours=5, minutes=30))
    assert (
        format_timestamp(datetime(2026, 11, 21, 1, 2, 3, 4, tzinfo=eastward)) == "2026-11-20T19:32:03.000004Z"
    )


def test_no_instant_stays_none() -> None:
    assert format_timestamp(None) is None


def test_local_instant_shows_the_offset_of_its_zone() -> None:
    assert format_local(datetime(2026, 7, 1, 9, 0, 1, 5, UTC), "Europe/Vienna") == "2026-07-01T11:00:01+02:00"


@pytest.mark.parametrize(
    ("content", "value", "hidden"),
    [
        ("the key is sk-live-1, sk-live-1!", "sk-live-1", "the key is [secret], [secret]!"),
        ("Authorization: Bearer sk-live-1", "Bearer sk-live-1", "Authorization: [secret]"),
        ("only sk-live-1", "Bearer sk-live-1\n", "only [secret]"),
        ("line two-of-a-key", "line-one-of-a-key\ntwo-of-a-key", "line [secret]"),
        ("schlüsselwort", "schlüsselwort", "[secret]"),
        (r'{"echo": "Basic YWJj\"\\ZGVm"}', 'Basic YWJj"\\ZGVm', '{"echo": "[secret]"}'),
        (r'{"echo": "Basic YWJj\/ZGVm"}', "Basic YWJj/ZGVm", '{"echo": "[secret]"}'),
        (r'{"echo": "schl\u00fcsselwort"}', "schlüsselwort", '{"echo": "[secret]"}'),
        ("a short one", "one", "a short one"),
        ("", "sk-live-1", ""),
    ],
)
def test_value_and_its_words_are_replaced(content: str, value: str, hidden: str) -> None:
    assert hide(content.encode(), [value]).decode() == hidden


def test_value_that_contains_another_is_replaced_as_a_whole() -> None:
    assert hide(b"password-and-more password", ["password", "password-and-more"]) == b"[secret] [secret]"


def test_number_of_words_is_bounded() -> None:
    words = [f"word-{number:05}" for number in range(MAX_HIDDEN_WORDS * 2)]
    assert hide(" ".join(words).encode(), words).count(b"word-") == MAX_HIDDEN_WORDS
