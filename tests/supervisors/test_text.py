"""What is left of values that are too long, and of texts that nobody can store."""

import orjson

from supervisors.text import excerpt, shortened, storable


def test_what_fits_stays_as_it_is() -> None:
    assert shortened({"a": ["b"]}, 100) == ({"a": ["b"]}, "")


def test_long_texts_are_cut_before_the_shape_is() -> None:
    value = [{"id": "7", "body": "x" * 9_000}] * 3
    cut, left_out = shortened(value, 5_000)
    assert cut == [{"id": "7", "body": f"{'x' * 1_000}… (cut: 1000 of 9000 characters)"}] * 3
    assert left_out == "It was too long: texts of more than 1000 characters were cut."


def test_a_full_page_of_long_notifications_keeps_its_ids_and_fits() -> None:
    page = [{"id": f"{n:036}", "title": "🦊" * 255, "body": "🦊" * 100_000} for n in range(100)]
    cut, _ = shortened(page, 131_072)
    assert [each["id"] for each in cut] == [each["id"] for each in page]
    assert len(orjson.dumps(cut)) <= 131_072


def test_what_is_long_in_every_way_is_shown_from_its_beginning() -> None:
    cut, left_out = shortened(list(range(1_000)), 50)
    assert cut == orjson.dumps(list(range(1_000)))[:50].decode()
    assert left_out.endswith("the beginning of its JSON, 50 of 3891 bytes.")


def test_an_excerpt_is_one_line() -> None:
    assert excerpt("<html>\n  <b>Bad\0 gateway</b>", 10) == "<html> <b>…"


def test_what_cannot_be_stored_is_left_out() -> None:
    assert storable("a\0b\ud800c") == "ab?c"
