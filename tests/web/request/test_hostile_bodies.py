"""Bodies made to cost more than they seem to: answered before other requests have to wait."""

import gc
import time
from dataclasses import dataclass
from io import BytesIO

import pytest

from tests.web.conftest import Api

CONTACTS = "/api/defaults/contacts/"
SPANS = "/api/tracing/spans/"
AGENTS = "/api/cloud/agents/"
MESSAGES = "/api/defaults/messages/"
INVITES = "/api/organizations/invites/"

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data; boundary=b"
PART = b'--b\r\nContent-Disposition: form-data; name="a"'
END = b"\r\n\r\n\r\n"
FULL = 1_048_576 - 200  # a body with so much in it is just not too large
MAX_RATIO = 30  # of processor time to that of an honest body of the same size, including the sender's


def full_of(piece: bytes) -> bytes:
    return piece * (FULL // len(piece))


def list_of(item: bytes) -> bytes:
    return b"[" + full_of(item + b",") + item + b"]"


def in_metadata(value: bytes) -> bytes:
    return b'{"name": "Ann", "metadata": ' + value + b"}"


@dataclass(frozen=True)
class Hostile:
    """A body, the path that it is sent to, and the status of the response."""

    what: str
    status: int
    body: bytes
    path: str = CONTACTS
    content_type: str = JSON


HOSTILE = (
    Hostile("nested lists", 413, in_metadata(b"[" * (FULL // 2) + b"]" * (FULL // 2))),
    Hostile("lists that do not end", 413, full_of(b"[")),
    Hostile("deep lists", 400, in_metadata(b"[" * 66 + b"]" * 66)),
    Hostile("tiny lists", 413, in_metadata(list_of(b"[]"))),
    Hostile("tiny lists that nobody asked for", 413, b'{"name": "Ann", "x": ' + list_of(b"[]") + b"}"),
    Hostile("tiny objects", 413, in_metadata(list_of(b"{}"))),
    Hostile("tiny objects as spans", 413, list_of(b"{}"), SPANS),
    Hostile("tiny objects as attachments", 413, b'{"attachments": ' + list_of(b"{}") + b"}", MESSAGES),
    Hostile("some tiny attachments", 400, b'{"attachments": [' + b"{}," * 9999 + b"{}]}", MESSAGES),
    Hostile("many tags", 400, b'{"name": "n", "model": "m", "tags": [' + b"[]," * 9999 + b"[]]}", AGENTS),
    Hostile("numbers", 413, in_metadata(list_of(b"1"))),
    Hostile("as many values as may be", 201, in_metadata(b"[" + b'{"a": 1},' * 16_000 + b"{}]")),
    Hostile("long numbers", 201, in_metadata(list_of(b"18446744073709551615"))),
    Hostile("one number", 400, in_metadata(b"9" * FULL)),
    Hostile("one number as text", 400, b'{"name": "n", "max_turns": "' + b"9" * FULL + b'"}', AGENTS),
    Hostile("a huge integer", 400, in_metadata(b"18446744073709551616")),
    Hostile(
        "unknown fields", 400, b'{"name": "Ann"' + b"".join(b',"%d":0' % n for n in range(10_000)) + b"}"
    ),
    Hostile("duplicate keys", 413, b'{"name": "Ann"' + full_of(b',"name":1') + b"}"),
    Hostile("some duplicate keys", 400, b'{"name": "Ann"' + b',"name":1' * 10_000 + b"}"),
    Hostile(
        "one duplicate key", 400, in_metadata(b"[" + b'{"a": 1},' * 16_000 + b'{"b": ":", "\\u0062": 1}]')
    ),
    Hostile("a NUL", 400, in_metadata(b'["\\u0000"]')),
    Hostile("a NUL in a name", 400, b'{"name": "\\u0000"}'),
    Hostile("NULs", 400, in_metadata(b'"' + full_of(b"\\u0000") + b'"')),
    Hostile("a lone surrogate", 400, in_metadata(b'{"\\ud800": 1}')),
    Hostile("lone surrogates", 413, in_metadata(list_of(b'"\\ud800"'))),
    Hostile("a long address", 400, b'{"email": "a@' + b"a." * (FULL // 2) + b'"}', INVITES),
    Hostile("a form of 1-byte fields", 400, full_of(b"a&"), CONTACTS, FORM),
    Hostile("a form of JSON", 201, b"&".join([b"metadata=[" + b"[]," * 300 + b"0]"] * 999), CONTACTS, FORM),
    Hostile("a form of duplicate keys", 400, b'metadata={"a":1' + b',"a":1' * 10_000 + b"}", CONTACTS, FORM),
    Hostile("a form of escapes", 400, b"name=" + full_of(b"%41"), CONTACTS, FORM),
    Hostile("a form of broken escapes", 400, full_of(b"%"), CONTACTS, FORM),
    Hostile("parts", 400, full_of(PART + END) + b"--b--", CONTACTS, MULTIPART),
    Hostile("semicolons", 201, (PART + b";" * 8000 + END) * 128 + b"--b--", CONTACTS, MULTIPART),
    Hostile(
        "quoted ones", 201, (PART + b'; x="' + b";" * 8000 + b'"' + END) * 128 + b"--b--", CONTACTS, MULTIPART
    ),
    Hostile("too much", 413, b" " * (FULL + 300)),
)


HONEST = Hostile("honest", 201, in_metadata(b'{"text": "' + full_of(b"x") + b'"}'))


@pytest.fixture
def no_garbage_of_others() -> None:
    """Exempt objects of earlier tests from garbage collections, so that none is timed with a body."""
    gc.collect()
    gc.freeze()


@pytest.mark.usefixtures("no_garbage_of_others")
@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda hostile: hostile.what)
async def test_hostile_body_costs_little_more_than_honest_one(api: Api, hostile: Hostile) -> None:
    honest = min([await seconds_of(api, HONEST) for _ in range(3)])
    times = await seconds_of(api, hostile) / honest
    assert times < MAX_RATIO, f"{hostile.what} cost {times:.0f} times as much as an honest body of that size"


async def seconds_of(api: Api, sent: Hostile) -> float:
    """Return the processor time of a request."""
    begun = time.thread_time()
    answer = await api.request(
        "POST", sent.path, data=BytesIO(sent.body), headers={"Content-Type": sent.content_type}
    )
    taken = time.thread_time() - begun
    assert answer.status == sent.status, answer.body
    return taken
