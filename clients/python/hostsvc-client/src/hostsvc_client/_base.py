"""What the asynchronous and the synchronous client share: settings, requests, answers, and when to repeat."""

import datetime as dt
import json
import os
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict
from urllib.parse import quote, urlencode, urlsplit

from hostsvc_client import errors
from hostsvc_client._decode import decoder, wire_name
from hostsvc_client._operation import Operation
from hostsvc_client._operations import OPERATIONS

VERSION = "0.3.0.dev0"
Upload = tuple[str, bytes, str]
"""A file to upload: its name, its content and its media type."""

PAGE = 100
MAX_WAIT_SECONDS = 60
FIRST_DELAY_SECONDS, MAX_DELAY_SECONDS = 0.25, 8.0
# An open stream sends a comment every 15 seconds.
MAX_SILENCE_SECONDS = 45.0
# A misspelt field is refused, and the refusal names the right one.
COMMON_HEADERS = {
    "Accept": "application/json",
    "Prefer": "handling=strict",
    "User-Agent": f"hostsvc-client/{VERSION}",
}


class Options(TypedDict, total=False):
    """The options of a client. `timeout` seconds of silence end an attempt; none begins after `deadline`."""

    authorization: str
    organization: str | None
    timeout: float
    max_attempts: int
    deadline: float


@dataclass(frozen=True)
class Settings:
    """Where the service is, who asks, and how long to try."""

    url: str
    authorization: str = field(default="", repr=False)
    organization: str | None = None
    timeout: float = 30.0
    max_attempts: int = 8
    deadline: float = 120.0

    @classmethod
    def of(cls, url: str | None, api_key: str | None, options: Options) -> "Settings":
        """Complete the settings from HOSTSVC_URL and HOSTSVC_API_KEY."""
        url = url or os.environ.get("HOSTSVC_URL") or "http://127.0.0.1:8080"
        if urlsplit(url).scheme not in ("http", "https"):
            raise ValueError(f"the url must begin with http:// or https://, got {url!r}")
        if "authorization" not in options:
            key = os.environ.get("HOSTSVC_API_KEY") if api_key is None else api_key
            options = {**options, "authorization": f"Bearer {key.strip()}" if key else ""}
        return cls(url.rstrip("/"), **options)


@dataclass(frozen=True)
class Call:
    """A request to be sent, as often as it takes. Its idempotency key is the same each time."""

    name: str
    operation: Operation
    url: str
    headers: dict[str, str] = field(repr=False)
    content: dict[str, Any]
    """The body, as arguments of the library."""
    sent: frozenset[str]
    """The names of the fields of the body."""
    extra_seconds: float
    """How long the service may wait before it answers."""

    def with_query(self, query: str) -> "Call":
        """Return the call for another page."""
        return replace(self, url=f"{self.url.partition('?')[0]}?{query}")

    def with_headers(self, **headers: str) -> "Call":
        return replace(self, headers={**self.headers, **headers})


@dataclass(frozen=True)
class Reply:
    """What the service answered."""

    status: int
    headers: Mapping[str, str]
    content: bytes


def prepare(
    settings: Settings,
    name: str,
    path: Sequence[object],
    *,
    query: Mapping[str, Any] | None = None,
    body: Any = None,
    files: Sequence[Upload] = (),
    organization: str | None = None,
    idempotency_key: str | None = None,
) -> Call:
    """Return the request for a call of an operation."""
    operation = OPERATIONS[name]
    names = map(_segment, path)
    segments = [next(names) if part[:1] == "{" else part for part in operation.path.split("/")]
    pairs = [(key, one) for key, value in (query or {}).items() for one in _query_values(value)]
    if operation.is_paged and (query or {}).get("limit") is None:
        pairs.append(("limit", str(PAGE)))
    url = settings.url + "/".join(segments) + (f"?{urlencode(pairs)}" if pairs else "")
    headers = {**COMMON_HEADERS}
    if settings.authorization:
        headers["Authorization"] = settings.authorization
    if organization or settings.organization:
        headers["X-Organization"] = str(organization or settings.organization)
    if operation.takes_key:
        headers["Idempotency-Key"] = idempotency_key or os.urandom(16).hex()
    for header, value in headers.items():
        if not (value.isascii() and value.isprintable()):
            raise ValueError(
                f"{header} may only have printable ASCII characters"
            )  # not which: it may be a key
    if isinstance(body, Mapping):
        body = {wire_name(key): value for key, value in body.items()}
    content: dict[str, Any] = {}
    if files:
        content = {"data": {key: _text(value) for key, value in body.items()}}
        content["files"] = [("files", file) for file in files]
    elif body is not None:
        headers["Content-Type"] = "application/json"
        content = {"content": json.dumps(body, default=_plain).encode()}
    sent = frozenset(body if isinstance(body, Mapping) else ())
    return Call(name, operation, url, headers, content, sent, float((query or {}).get("wait") or 0))


def _segment(name: object) -> str:
    """Return how an id is written in a path. Raise ValueError if it would lead to another operation."""
    if str(name) in ("", ".", ".."):
        raise ValueError(f"{name!r} is not an id")
    return quote(str(name), safe="")


def _query_values(value: Any) -> list[str]:
    if isinstance(value, list | tuple | set | frozenset):
        return [text for one in value for text in _query_values(one)]
    return [] if value is None else [_text(value)]


def _text(value: Any) -> str:
    """Return how a value is written in a query or a form."""
    if value is None or isinstance(value, str):
        return str(value or "")
    return _plain(value) if isinstance(value, dt.date) else json.dumps(value, default=_plain)


def _plain(value: Any) -> str:
    """Return how a value is written in JSON that `json` does not know."""
    if isinstance(value, dt.date):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} cannot be sent")


def failure_of(reply: Reply) -> errors.Refused | None:
    """Return the error that an answer stands for; None if it is a success."""
    if reply.status < 300:
        return None
    try:
        body = json.loads(reply.content)
    except ValueError:
        body = reply.content.decode(errors="replace")[:1000]
    after = _retry_after(reply.headers.get("retry-after"))
    return errors.refusal(reply.status, body, reply.headers.get("x-request-id", ""), after)


def _retry_after(text: str | None) -> float | None:
    """Return the seconds of a `Retry-After`, which may be a date."""
    from email.utils import parsedate_to_datetime  # not earlier: it takes a while

    try:
        if text and not text.isdecimal():
            return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
        return float(text) if text else None
    except ValueError:
        return None


def result_of(call: Call, reply: Reply) -> Any:
    """Return the answer in the types of `models`. Raise SecretLost if a replayed answer lacks a secret."""
    from hostsvc_client.models import ANSWERS  # not earlier: it takes a while

    kind = ANSWERS[call.name]
    if kind is None or kind is bytes:
        return reply.content if kind is bytes else None
    if kind is str:
        return reply.content.decode()
    try:
        received = json.loads(reply.content)
    except ValueError:
        raise errors.HostsvcError(f"no hostsvc service answers at {call.url}") from None
    answer = decoder(kind)(received)
    if "idempotency-replayed" in reply.headers:
        secrets = (name for name in call.operation.secrets if name not in call.sent)
        if lost := tuple(name for name in secrets if getattr(answer, name) is None):
            raise errors.SecretLost(lost, answer)
    return answer


def next_page(reply: Reply) -> str | None:
    """Return the query of the next page, if there is one. The address before it may be that of a proxy."""
    link = reply.headers.get("link", "")
    return urlsplit(link[1 : link.index(">")]).query if 'rel="next"' in link else None


def delay_after(failure: errors.Refused | errors.ConnectionFailed, failures: int = 1) -> float:
    """Return how long to wait after so many failures in a row, with jitter, or what the last one asks for."""
    longest = min(MAX_DELAY_SECONDS, FIRST_DELAY_SECONDS * 2.0 ** min(failures - 1, 10))
    return max(longest * random.uniform(0.5, 1.0), failure.retry_after or 0)  # noqa: S311


@dataclass
class Retries:
    """How often a call was tried, and how much longer it may be."""

    settings: Settings
    call: Call
    attempts: int = 0
    may_be_done: bool = False  # whether an attempt may have had its effect
    began: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> float:
        """Return the seconds until the deadline."""
        return self.began + self.settings.deadline + self.call.extra_seconds - time.monotonic()

    @property
    def timeout(self) -> float:
        """Return how long the next attempt may take."""
        return max(0.001, min(self.settings.timeout + self.call.extra_seconds, self.left))

    def delay_after(self, failure: errors.Refused | errors.ConnectionFailed) -> float:
        """Return the seconds to wait before the next attempt. Raise the failure if there is none."""
        self.attempts += 1
        self.may_be_done |= failure.is_sent
        delay = delay_after(failure, self.attempts)
        may_repeat = failure.is_passing and (self.call.operation.is_repeatable or not failure.is_sent)
        if not may_repeat or delay > self.left or self.attempts >= self.settings.max_attempts:
            raise failure
        return delay

    def has_deleted(self, failure: errors.Refused) -> bool:
        """Return whether a DELETE finds nothing because an earlier attempt has deleted it."""
        is_deletion = self.call.operation.method == "DELETE"
        return is_deletion and self.may_be_done and isinstance(failure, errors.NotFound)
