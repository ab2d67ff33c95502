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
from hostsvc_client._operations import OPERATIONS, Operation

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
    deadline: float


@dataclass(frozen=True)
class Settings:
    """Where the service is, who asks, and how long to try."""

    url: str
    authorization: str = field(default="", repr=False)
    organization: str | None = None
    timeout: float = 30.0
    deadline: float = 120.0

    @classmethod
    def of(cls, url: str | None, api_key: str | None, options: Options) -> "Settings":
        """Complete the settings from HOSTSVC_URL and HOSTSVC_API_KEY."""
        url = (url or os.environ.get("HOSTSVC_URL") or "http://127.0.0.1:8080").strip().rstrip("/")
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        if not is_usable or "@" in parts.netloc or parts.query or parts.fragment:  # not shown: a password
            raise ValueError("the url must be http:// or https:// and a host, perhaps with a port and a path")
        if "authorization" not in options:
            key = os.environ.get("HOSTSVC_API_KEY") if api_key is None else api_key
            options = {**options, "authorization": f"Bearer {key.strip()}" if key else ""}
        return cls(url, **options)


@dataclass(frozen=True)
class Call:
    """A request to be sent, as often as it takes. Its idempotency key is the same each time."""

    name: str
    operation: Operation
    url: str
    headers: dict[str, str] = field(repr=False)
    content: dict[str, Any]
    """The body, as arguments of the library."""
    secrets: tuple[str, ...]
    """The fields of the answer with a secret that the service makes."""
    extra_seconds: float
    """How long the service may wait before it answers."""

    @property
    def origin(self) -> str:
        """Return the address of the service, without a path."""
        return "/".join(self.url.split("/", 3)[:3])

    def next_page(self, reply: "Reply") -> "Call | None":
        """Return the call for the page after this one. The address in the answer may be that of a proxy."""
        link = reply.headers.get("link", "")
        if 'rel="next"' not in link:
            return None
        return replace(self, url=f"{self.url.partition('?')[0]}?{urlsplit(link[1 : link.index('>')]).query}")


@dataclass(frozen=True)
class Reply:
    """What the service answered to a request that it did not refuse."""

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
    given = {key: value for key, value in (query or {}).items() if value is not None}
    asked = {"limit": PAGE, **given} if operation.is_paged else given
    parameters = urlencode({key: _texts(value) for key, value in asked.items()}, doseq=True)
    url = settings.url + "/".join(segments) + (f"?{parameters}" if parameters else "")
    headers = {**COMMON_HEADERS}
    if settings.authorization:
        headers["Authorization"] = settings.authorization
    if organization or settings.organization:
        headers["X-Organization"] = str(organization or settings.organization)
    if operation.takes_key:
        headers["Idempotency-Key"] = os.urandom(16).hex() if idempotency_key is None else idempotency_key
    for header, value in headers.items():
        if not (value.isascii() and value.isprintable()):  # the message keeps it back: it may be a key
            raise ValueError(f"{header} may only have printable ASCII characters")
    if isinstance(body, Mapping):
        body = {wire_name(key): value for key, value in body.items()}
    content: dict[str, Any] = {}
    if files:
        content = {"data": {key: _text(value) for key, value in body.items()}}
        content["files"] = [("files", file) for file in files]
    elif body is not None:
        headers["Content-Type"] = "application/json"
        content = {"content": json.dumps(body, default=_plain).encode()}
    secrets = tuple(one for one in operation.secrets if one not in (body or {}))
    return Call(name, operation, url, headers, content, secrets, float(given.get("wait", 0)))


def _segment(name: object) -> str:
    """Return how an id is written in a path. Raise ValueError if it would lead to another operation."""
    if name is None or str(name) in ("", ".", ".."):
        raise ValueError(f"{name!r} is not an id")
    return quote(str(name), safe="")


def _texts(value: Any) -> list[str]:
    return [*map(_text, value if isinstance(value, list | tuple | set | frozenset) else [value])]


def _text(value: Any) -> str:
    """Return how a value is written in a query or a form."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, default=_plain).strip('"')


def _plain(value: Any) -> str:
    """Return how a value is written in JSON that `json` does not know."""
    if isinstance(value, dt.date):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} cannot be sent")


def checked(status: int, headers: Mapping[str, str], content: bytes) -> Reply:
    """Return the answer. Raise the error that it stands for."""
    if status < 300:
        return Reply(headers, content)
    try:
        body = json.loads(content)
    except ValueError:
        body = content.decode(errors="replace")[:1000]
    after = _retry_after(headers.get("retry-after", ""))
    raise errors.refusal(status, body, headers.get("x-request-id", ""), after)


def _retry_after(text: str) -> float | None:
    """Return the seconds of a `Retry-After`, which proxies may send as a date; None if it is neither."""
    from email.utils import parsedate_to_datetime  # not earlier: it takes a while

    try:
        return float(text) if text.isdecimal() else parsedate_to_datetime(text).timestamp() - time.time()
    except (ValueError, OverflowError):
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
    lost = tuple(name for name in call.secrets if getattr(answer, name) is None)
    if lost and "idempotency-replayed" in reply.headers:
        raise errors.SecretLost(lost, answer)
    return answer


def delay_after(failure: errors.Refused | errors.ConnectionFailed, failures: int = 1) -> float:
    """Return the seconds to wait after so many failures in a row. Raise one that would come again."""
    if not failure.is_passing:
        raise failure
    longest = min(MAX_DELAY_SECONDS, FIRST_DELAY_SECONDS * 2.0 ** min(failures - 1, 10))
    return max(longest * random.uniform(0.5, 1.0), failure.retry_after or 0)  # noqa: S311


class Retries:
    """How often a call was tried, and how much longer it may be."""

    def __init__(self, settings: Settings, call: Call) -> None:
        self.settings, self.call = settings, call
        self.attempts, self.may_be_done = 0, False  # whether an attempt may have had its effect
        self.until = time.monotonic() + settings.deadline + call.extra_seconds

    @property
    def timeout(self) -> float:
        """Return how long the next attempt may take."""
        return max(0.001, min(self.settings.timeout + self.call.extra_seconds, self.until - time.monotonic()))

    def delay_after(self, failure: errors.Refused | errors.ConnectionFailed) -> float:
        """Return the seconds to wait before the next attempt. Raise the failure if there is none."""
        self.attempts += 1
        self.may_be_done |= failure.is_sent
        delay = delay_after(failure, self.attempts)
        may_repeat = self.call.operation.is_repeatable or not failure.is_sent
        if not may_repeat or time.monotonic() + delay > self.until:
            raise failure
        return delay

    def has_deleted(self, failure: errors.HostsvcError) -> bool:
        """Return whether a DELETE finds nothing because an earlier attempt has deleted it."""
        is_deletion = self.call.operation.method == "DELETE"
        return is_deletion and self.may_be_done and isinstance(failure, errors.NotFound)
