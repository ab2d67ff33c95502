"""What the asynchronous and the synchronous client share: settings, requests, answers, and when to repeat."""

import datetime as dt
import json
import os
import random
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from hostsvc_client import errors
from hostsvc_client._decode import decoder, wire_name
from hostsvc_client._operations import OPERATIONS, Operation

VERSION = "0.2.0"
Upload = tuple[str, bytes, str]
"""A file to upload: its name, its content and its media type."""

PAGE = 100
MAX_WAIT_SECONDS = 60
FIRST_DELAY_SECONDS, MAX_DELAY_SECONDS = 0.25, 8.0
MAX_RETRY_AFTER_SECONDS = 120.0
# An open stream sends a comment every 15 seconds.
MAX_SILENCE_SECONDS = 45.0
REPEATED_STATUSES = frozenset({408, 429, 502, 503, 504})
# The service has not begun to work on these.
WITHOUT_EFFECT = frozenset({408, 429})
# A misspelt field is refused, and the refusal names the right one.
COMMON_HEADERS = {
    "Accept": "application/json",
    "Prefer": "handling=strict",
    "User-Agent": f"hostsvc-client/{VERSION}",
}


@dataclass(frozen=True)
class Settings:
    """Where the service is, who asks, and how long to try."""

    url: str
    authorization: str = field(repr=False)
    organization: str | None
    timeout: float
    max_attempts: int
    deadline: float

    @classmethod
    def of(cls, url: str | None, api_key: str | None, authorization: str | None, **others: Any) -> "Settings":
        """Complete the settings from HOSTSVC_URL and HOSTSVC_API_KEY."""
        url = url or os.environ.get("HOSTSVC_URL") or "http://127.0.0.1:8080"
        if urlsplit(url).scheme not in ("http", "https"):
            raise ValueError(f"the url must begin with http:// or https://, got {url!r}")
        key = api_key or (None if authorization else os.environ.get("HOSTSVC_API_KEY"))
        return cls(url.rstrip("/"), authorization or (f"Bearer {key}" if key else ""), **others)


@dataclass(frozen=True)
class Call:
    """A request to be sent, as often as it takes. Its idempotency key is the same each time."""

    name: str
    operation: Operation
    url: str
    headers: dict[str, str]
    content: bytes | None
    data: dict[str, Any] | None
    files: list[tuple[str, Upload]] | None
    sent: frozenset[str]
    extra_seconds: float

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

    def json(self) -> Any:
        """Return the content as JSON, or as text if it is none."""
        try:
            return json.loads(self.content)
        except ValueError:
            return self.content.decode(errors="replace")[:1000]


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
    names = iter(path)
    parts = operation.path.split("/")
    segments = [quote(str(next(names)), safe="") if part[:1] == "{" else part for part in parts]
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
        headers["Idempotency-Key"] = idempotency_key or str(uuid.uuid4())
    if isinstance(body, Mapping):
        body = {wire_name(key): value for key, value in body.items()}
    content = None
    if body is not None and not files:
        headers["Content-Type"] = "application/json"
        content = json.dumps(body, default=_to_json).encode()
    return Call(
        name,
        operation,
        url,
        headers,
        content,
        {key: _form_value(value) for key, value in body.items()} if files else None,
        [("files", file) for file in files] if files else None,
        frozenset(body) if isinstance(body, Mapping) else frozenset(),
        float((query or {}).get("wait") or 0),
    )


def _query_values(value: Any) -> list[str]:
    if value is None:
        return []
    if isinstance(value, list | tuple | set | frozenset):
        return [text for one in value for text in _query_values(one)]
    return [str(value).lower() if isinstance(value, bool) else str(_to_text(value))]


def _to_text(value: Any) -> Any:
    return value.isoformat() if isinstance(value, dt.date) else value


def _to_json(value: Any) -> Any:
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, uuid.UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} cannot be sent as JSON")


def _form_value(value: Any) -> str:
    return str(value) if isinstance(value, str) else json.dumps(value, default=_to_json)


def failure_of(call: Call, reply: Reply) -> errors.Refused | None:
    """Return the error that an answer stands for; None if it is a success."""
    if reply.status < 300:
        return None
    after = _retry_after(reply.headers.get("retry-after"))
    return errors.refusal(reply.status, reply.json(), reply.headers.get("x-request-id", ""), after)


def _retry_after(text: str | None) -> float | None:
    """Return the seconds of a `Retry-After`, which may be a date."""
    if not text:
        return None
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (TypeError, ValueError):
        return None


def result_of(call: Call, reply: Reply) -> Any:
    """Return the answer in the types of `models`. Raise SecretLost if a replayed answer lacks a secret."""
    from hostsvc_client.models import ANSWERS  # not earlier: it takes a while

    kind = ANSWERS[call.name]
    if kind is None or kind is bytes:
        return reply.content if kind is bytes else None
    if kind is str:
        return reply.content.decode()
    answer = decoder(kind)(reply.json())
    if "idempotency-replayed" in reply.headers:
        secrets = (name for name in call.operation.secrets if name not in call.sent)
        if lost := tuple(name for name in secrets if getattr(answer, name) is None):
            raise errors.SecretLost(lost, answer)
    return answer


def next_page(reply: Reply) -> str | None:
    """Return the query of the next page, if there is one. The address before it may be that of a proxy."""
    link = reply.headers.get("link", "")
    return urlsplit(link[1 : link.index(">")]).query if 'rel="next"' in link else None


def backoff(failures: int) -> float:
    """Return how long to wait after so many failures in a row, with jitter."""
    longest = min(MAX_DELAY_SECONDS, FIRST_DELAY_SECONDS * 2.0 ** min(failures - 1, 10))
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 -- jitter


def is_passing(failure: errors.HostsvcError) -> bool:
    """Return whether the same request may succeed later."""
    if isinstance(failure, errors.Refused):
        return failure.status in REPEATED_STATUSES
    return isinstance(failure, errors.ConnectionFailed)


@dataclass
class Retries:
    """How often a call was tried, and how much longer it may be."""

    settings: Settings
    call: Call
    now: Callable[[], float] = time.monotonic
    attempts: int = 0
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.now()

    @property
    def left(self) -> float:
        """Return the seconds until the deadline."""
        return self.settings.deadline + self.call.extra_seconds - (self.now() - self.began)

    @property
    def timeout(self) -> float:
        """Return how long the next attempt may take."""
        return max(0.001, min(self.settings.timeout + self.call.extra_seconds, self.left))

    def delay_after(self, failure: errors.HostsvcError) -> float:
        """Return the seconds to wait before the next attempt. Raise the failure if there is none."""
        self.attempts += 1
        delay = backoff(self.attempts)
        if isinstance(failure, errors.Refused) and failure.retry_after is not None:
            delay = max(delay, failure.retry_after)
        may_repeat = self.call.operation.is_repeatable or _had_no_effect(failure)
        is_late = delay > MAX_RETRY_AFTER_SECONDS or delay >= self.left
        if (
            is_late
            or not may_repeat
            or not is_passing(failure)
            or self.attempts >= self.settings.max_attempts
        ):
            raise failure
        return delay


def _had_no_effect(failure: errors.HostsvcError) -> bool:
    if isinstance(failure, errors.Refused):
        return failure.status in WITHOUT_EFFECT
    return isinstance(failure, errors.ConnectionFailed) and not failure.is_sent


def was_deleted(retries: Retries, failure: errors.HostsvcError) -> bool:
    """Return whether a repeated DELETE finds nothing because an earlier attempt has deleted it."""
    is_delete = retries.call.operation.method == "DELETE"
    return is_delete and retries.attempts > 0 and isinstance(failure, errors.NotFound)
