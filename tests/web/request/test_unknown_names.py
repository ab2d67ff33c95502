"""Unknown names: found in bodies and queries, and named by the answer."""

from collections.abc import Mapping
from time import thread_time
from typing import Any, TypedDict

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from marshmallow import INCLUDE
from multidict import CIMultiDict

from tests.processor_time import slowness
from web.api.agents.agents import AgentBody
from web.errors import Invalid
from web.fields import JsonValue, Line, ListOf, ObjectOf, Text
from web.observability.requests import HEADERS
from web.request.parsing import Body
from web.request.unknown_names import note_unknown_fields, note_unknown_names, shown_fields

IGNORED = "X-Ignored"
STRICT = {"Prefer": "handling=strict"}


class PartBody(Body):
    url = Line(required=True)


class ParcelBody(Body):
    priority = Line(required=True)
    parts = ListOf(ObjectOf(PartBody))
    label = ObjectOf(PartBody)
    notes = JsonValue()
    owner_id = Text(data_key="owner")


class ParcelResponse(TypedDict):
    id: str
    priority: str


class ParcelQuery(Body):
    limit = Text()


class FreeBody(Body):
    class Meta:
        unknown = INCLUDE


BODY = ParcelBody()
PARAMETERS = ParcelQuery().known.names
SHOWN = shown_fields(ParcelResponse, BODY.known)
KEY = "Idempotency-Key"


def read(
    body: Any,
    path: str = "/",
    headers: Mapping[str, str] | list[tuple[str, str]] | None = None,
    schema: Body = BODY,
) -> dict[str, str]:
    """Read a request, and return the headers of its answer."""
    request = a_request(path, headers)
    note_unknown_names(request, PARAMETERS, *request.headers.keys() & {KEY})
    note_unknown_fields(request, schema.known, body, SHOWN)
    return request[HEADERS]


def a_request(path: str, headers: Mapping[str, str] | list[tuple[str, str]] | None) -> web.Request:
    request = make_mocked_request("POST", path, CIMultiDict(headers or ()))
    request[HEADERS] = {}
    return request


def refusal(body: Any, path: str = "/") -> Any:
    """Return the messages about a strict request."""
    with pytest.raises(Invalid) as refused:
        read(body, path, STRICT)
    return refused.value.body


def test_known_and_read_only_names_are_not_named() -> None:
    body = {"priority": 1, "owner": 2, "id": 3, "notes": {"anything": {"goes": 1}}, "parts": [{"url": 1}]}
    assert read(body, "/?limit=1") == {}
    assert read({}) == {}
    assert read({"any": 1}, schema=FreeBody()) == {}


def test_unknown_names_stand_once_and_fields_first() -> None:
    body = {"colour": 1, "owner_id": 2, "priority": 3}
    headers = read(body, "/?limit=1&colour=1&size=2&size=3", {"Idempotency-Key": "x"})
    assert headers == {IGNORED: "colour, owner_id, size, Idempotency-Key"}


def test_names_inside_objects_have_paths_without_indexes() -> None:
    parts = [{"url": 1, "colour": 2}, 7, {"size": 3}, {"colour": 4, "id": 5}]
    body = {"parts": parts, "label": {"font": 1}, "notes": [{"x": 1}]}
    assert read(body) == {IGNORED: "parts.colour, parts.size, parts.id, label.font"}
    assert read([{"size": 1}, 7, {"size": 2, "id": 3}, body]) == {
        IGNORED: "size, parts.colour, parts.size, parts.id, label.font"
    }


def test_names_of_resource_not_shown_are_named() -> None:
    """An answer of another kind than the body does not make its fields read-only."""
    assert not shown_fields(ParcelResponse, FreeBody().known)
    assert shown_fields(ParcelResponse | list[ParcelResponse], BODY.known) == {"id", "priority"}


@pytest.mark.parametrize(
    ("name", "token"),
    [
        ("a-b_c.9", "a-b_c.9"),
        ("a,b;c d", "a%2Cb%3Bc%20d"),
        ("a\r\nSet-Cookie: x", "a%0D%0ASet-Cookie%3A%20x"),
        ("größe~", "gr%C3%B6%C3%9Fe%7E"),
        ("\x00\x7f\ud800", "%00%7F%3F"),
        ("", '""'),
        ("x" * 64, "x" * 64),
        ("x" * 65, "x" * 64 + "~"),
        ("x" * 63 + "é", "x" * 63 + "~"),
        ("é" * 1000, "%C3%A9" * 10 + "%C3~"),
    ],
)
def test_name_in_header_is_bounded_printable_ascii(name: str, token: str) -> None:
    assert read({name: 1}) == {IGNORED: token}


def test_header_names_at_most_twenty() -> None:
    body = {f"x{number}": number for number in range(1000)}
    assert read(body, "/?y=1", {"Idempotency-Key": "x"}) == {
        IGNORED: ", ".join(f"x{number}" for number in range(20))
    }
    long = read({"\U0001f600" * 500 + name: 1 for name in body})[IGNORED]
    assert len(long) <= 20 * 67
    assert long.isascii()


@pytest.mark.parametrize(
    "headers",
    [
        [("Prefer", "handling=strict")],
        [("prefer", 'Respond-Async, wait=10 ,  Handling = "STRICT" ; x=1')],
        [("Prefer", "respond-async"), ("Prefer", "handling=strict")],
        [("Prefer", "note=a, handling=strict, handling=lenient")],
    ],
)
def test_strict_preference_is_found_among_others(headers: list[tuple[str, str]]) -> None:
    assert read({"priority": 1}, headers=headers) == {"Preference-Applied": "handling=strict"}


@pytest.mark.parametrize(
    "header",
    [
        "",
        "handling",
        "handling=lenient, handling=strict",
        "x-handling=strict",
        "handling=strictly",
        'note="handling=strict"',
        '"' * 8000,
    ],
)
def test_other_preferences_are_lenient(header: str) -> None:
    assert read({"colour": 1}, headers={"Prefer": header}) == {IGNORED: "colour"}


def test_strict_request_is_refused_with_similar_names() -> None:
    body = {"prioritee": 1, "ownerId": 2, "parts": [{"URL": 1, "urls": 2}], "id": 3, "x" * 300: 4}
    assert refusal(body) == {
        "prioritee": ['Unknown field. Did you mean "priority"?'],
        "ownerId": ['Unknown field. Did you mean "owner"?'],
        "x" * 200: ["Unknown field."],
        "parts.URL": ['Unknown field. Did you mean "url"?'],
        "parts.urls": ['Unknown field. Did you mean "url"?'],
    }
    assert refusal({}, "/?limti=1&page=2&limit=3") == {
        "limti": ['Unknown query parameter. Did you mean "limit"?'],
        "page": ["Unknown query parameter."],
    }


def test_strict_refusal_of_many_long_names_is_short_and_fast() -> None:
    known, request = AgentBody().known, a_request("/", STRICT)
    names = [f"{name[:20]}_{number}_{name[20:]}" for number in range(60) for name in sorted(known.names)]
    times = []
    for _ in range(20):
        start = thread_time()
        with pytest.raises(Invalid) as refused:
            note_unknown_fields(request, known, dict.fromkeys(names), ())
        times.append((thread_time() - start) / slowness())
    assert len(refused.value.body) == 20
    assert len(str(refused.value.body)) < 20 * 300
    assert min(times) < 0.002, "about half a millisecond on a machine with nothing else to do"
