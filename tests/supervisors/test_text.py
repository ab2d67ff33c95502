"""Text of others: cut to a size, in quotes, and storable."""

import orjson

from supervisors.text import cut, excerpt, quoted, shorten, storable


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
