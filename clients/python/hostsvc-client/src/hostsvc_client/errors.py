"""What can go wrong. All errors can be pickled.

HostsvcError
├── ConnectionFailed          no answer; `is_sent` says whether the request may have had an effect
│   └── TimedOut              no answer in time
├── Refused                   an answer other than success: `status`, `detail`, `fields`, `request_id`
│   ├── Invalid               400: correct what `fields` or `detail` name
│   ├── NotAuthenticated      401
│   ├── PermissionDenied      403
│   ├── NotFound              404
│   ├── Conflict              409: the state of the resource forbids it; never repeated by the client
│   ├── Unprocessable         422: the idempotency key was used with another body
│   ├── TooManyRequests       429
│   └── ServiceFailed         5xx
├── SecretLost                created, but the secret in the answer is lost: delete it (`answer.id`)
├── EventsLost                events after your position are no longer kept; `since` says where to go on
├── NotEnded                  the run has not ended in time, or not begun
└── NotGenuine                the signature of a webhook is missing, wrong or too old
"""

from dataclasses import dataclass
from typing import Any

PASSING = frozenset({408, 429, 502, 503, 504})
WITHOUT_EFFECT = frozenset({408, 429})  # the service has not begun to work on the request


class HostsvcError(Exception):
    """Any error of the client."""

    is_passing = False  # whether the same request may succeed later


@dataclass(eq=False)
class ConnectionFailed(HostsvcError):
    """The service gave no answer."""

    reason: str
    is_sent: bool = True
    is_passing, retry_after = True, None

    def __str__(self) -> str:
        return f"no answer from the service: {self.reason}"


class TimedOut(ConnectionFailed):
    """The service gave no answer in time."""


class Refused(HostsvcError):
    """The service refused the request, or failed to answer it."""

    def __init__(
        self, status: int, body: Any = None, request_id: str = "", retry_after: float | None = None
    ) -> None:
        super().__init__(status, body, request_id, retry_after)
        self.status, self.body, self.request_id, self.retry_after = status, body, request_id, retry_after
        self.is_passing, self.is_sent = status in PASSING, status not in WITHOUT_EFFECT

    @property
    def fields(self) -> dict[str, Any]:
        """Return the messages about fields by their names; nested objects have nested messages."""
        items = self.body.items() if isinstance(self.body, dict) else ()
        return {name: value for name, value in items if isinstance(value, list | dict) and name != "error"}

    @property
    def detail(self) -> str:
        """Return the message that is about no field; "" if there is none."""
        if not isinstance(self.body, dict):
            return str(self.body or "")
        return str(self.body.get("detail") or self._error.get("message") or "")

    @property
    def code(self) -> str:
        """Return the code of a refused call of a tool, such as `uncleared_high_priority`; else ""."""
        return str(self._error.get("code") or "")

    @property
    def _error(self) -> dict[str, Any]:
        error = self.body.get("error") if isinstance(self.body, dict) else None
        return error if isinstance(error, dict) else {}

    def __str__(self) -> str:
        explanation = " ".join(filter(None, (self.detail, _flat(self.fields))))
        return f"{self.status}: {explanation or 'no explanation'}"


def _flat(messages: Any) -> str:
    if isinstance(messages, dict):
        return "; ".join(f"{name}: {_flat(inner)}" for name, inner in messages.items())
    return " ".join(map(_flat, messages)) if isinstance(messages, list) else str(messages)


class Invalid(Refused):
    """The request is not valid."""


class NotAuthenticated(Refused):
    """The credential is missing, wrong or no longer valid."""


class PermissionDenied(Refused):
    """The credential does not reach the resource."""


class NotFound(Refused):
    """The resource does not exist."""


class Conflict(Refused):
    """The state of the resource forbids the request."""


class Unprocessable(Refused):
    """The idempotency key was used with another body."""


class TooManyRequests(Refused):
    """A limit is reached, which `detail` names."""


class ServiceFailed(Refused):
    """The service or a proxy before it failed."""


def refusal(status: int, *details: Any) -> Refused:
    """Return the error for an answer other than success."""
    kinds = (Invalid, NotAuthenticated, PermissionDenied, NotFound, Conflict, Unprocessable, TooManyRequests)
    by_status = dict(zip((400, 401, 403, 404, 409, 422, 429), kinds, strict=True))
    return by_status.get(status, ServiceFailed if status >= 500 else Refused)(status, *details)


@dataclass(eq=False)
class SecretLost(HostsvcError):
    """The first answer is lost, and with it the secret. Delete `answer.id`, and create another one."""

    names: tuple[str, ...]
    answer: Any

    def __str__(self) -> str:
        what, where = ", ".join(self.names), getattr(self.answer, "id", "it")
        return f"created, but the {what} is lost: delete {where}, and create another one"


@dataclass(eq=False)
class EventsLost(HostsvcError):
    """Events after your position are no longer kept: read the present state, then go on with `since`."""

    since: int

    def __str__(self) -> str:
        return f"the log no longer has all events after your position; go on with since={self.since}"


@dataclass(eq=False)
class NotEnded(HostsvcError):
    """The run has not ended in time, or not begun; `run` is what the service has said of it, or None."""

    run: Any

    def __str__(self) -> str:
        status = getattr(self.run, "status", None)  # of the request
        return f"no run has begun: {status}" if status else "the run has not ended in time"


class NotGenuine(HostsvcError):
    """The request is no webhook of the service, or too old."""
