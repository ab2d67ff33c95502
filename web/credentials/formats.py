"""API keys, one-time codes, the tokens of users, runs and approvals, and stream tickets: made and read."""

import base64
import hashlib
import re
import secrets
import string
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import NoneType
from typing import Any, NamedTuple
from uuid import UUID

from web.fields import parse_uuid

KEY_BYTES = 32
CODE_BYTES = 24
SIGNING_BYTES = 24
TOKEN_ID_BYTES = 12
PREFIX_LENGTH = 8
PREFIX_ALPHABET = string.ascii_lowercase + string.digits
KEY_TEXT = re.compile(r"hsk_([A-Za-z0-9]{8})_[A-Za-z0-9_-]{43}")  # with the prefix as its group

ALGORITHM = "HS256"
ISSUER = "hostsvc"
FOR_USERS = "user"
FOR_RUNS = "run"
FOR_STREAMS = "event-stream"
FOR_APPROVALS = "approval"
TICKET_LIFETIME = timedelta(minutes=1)
MAX_LINK_LIFETIME = timedelta(days=30)
LEEWAY = timedelta(minutes=1)
NO_LEEWAY = timedelta()
CLAIMS = ["iss", "aud", "sub", "iat", "exp"]


class Claims(NamedTuple):
    """The statements of a token about itself. Times are in seconds since 1970."""

    subject: UUID
    issued_at: int
    expires_at: int
    version: Any  # blank if the token does not name one


@dataclass(frozen=True, slots=True)
class NewKey:
    """A new API key. It is shown once; only its prefix and its hash are stored."""

    prefix: str
    text: str = field(repr=False)

    @property
    def hash(self) -> bytes:
        return hash_secret(self.text)


def make_key() -> NewKey:
    prefix = "".join(secrets.choice(PREFIX_ALPHABET) for _ in range(PREFIX_LENGTH))
    return NewKey(prefix, f"hsk_{prefix}_{secrets.token_urlsafe(KEY_BYTES)}")


def make_code() -> str:
    """Return a random code that one person can use once: for an invitation, or to reset a password."""
    return secrets.token_urlsafe(CODE_BYTES)


def make_signing_secret() -> str:
    """Return a random secret for Standard Webhooks: `whsec_` and the key in Base64."""
    return f"whsec_{base64.b64encode(secrets.token_bytes(SIGNING_BYTES)).decode()}"


def hash_secret(text: str) -> bytes:
    """Hash a key or a code. Both are random, so a hash without salt cannot be reversed by guessing."""
    return hashlib.sha256(text.encode()).digest()


@dataclass(frozen=True, slots=True)
class UserTokens:
    """The tokens of users. Incrementing a user's `version` invalidates all older tokens."""

    secret: str = field(repr=False)
    lifetime: timedelta

    def issue(self, user_id: UUID, version: int, now: datetime) -> str:
        return _sign(self.secret, FOR_USERS, user_id, now, self.lifetime, version=version)

    def read(self, text: str, now: datetime) -> tuple[UUID, int] | None:
        """Return the user and the token's version, or None if the token is not ours or has expired."""
        claims = _verify(self.secret, FOR_USERS, [*CLAIMS, "version"], text)
        return (claims.subject, claims.version) if claims and _is_in_force(claims, now) else None


@dataclass(frozen=True, slots=True)
class RunTokens:
    """The tokens of runs. A token does not say whether its run is still going; the run's row does."""

    secret: str = field(repr=False)

    def issue(self, run_id: UUID, now: datetime, lifetime: timedelta) -> str:
        """Sign a token; `lifetime` is the maximum duration of the run."""
        return _sign(self.secret, FOR_RUNS, run_id, now, lifetime)

    def read(self, text: str, now: datetime) -> UUID | None:
        """Return the run, or None if the token is not ours or has expired."""
        claims = _verify(self.secret, FOR_RUNS, CLAIMS, text)
        return claims.subject if claims and _is_in_force(claims, now) else None


@dataclass(frozen=True, slots=True)
class TicketHolder:
    """The credential that a stream ticket stands for: an API key, or a user's tokens of one version."""

    credential: UUID
    token_version: int | None  # None: the credential is an API key


@dataclass(frozen=True, slots=True)
class StreamTickets:
    """The tickets that open event streams for a minute, in a URL: browsers cannot send a header there."""

    secret: str = field(repr=False)

    def issue(self, holder: TicketHolder, now: datetime) -> tuple[str, datetime]:
        """Return a ticket, and when it expires: in whole seconds, the unit of its claims."""
        version = holder.token_version
        text = _sign(self.secret, FOR_STREAMS, holder.credential, now, TICKET_LIFETIME, version=version)
        return text, (now + TICKET_LIFETIME).replace(microsecond=0)

    def read(self, text: str, now: datetime) -> TicketHolder | None:
        """Return what the ticket stands for, or None if it is not ours or has expired."""
        claims = _verify(self.secret, FOR_STREAMS, CLAIMS, text)
        if claims is None or not _is_in_force(claims, now, NO_LEEWAY):
            return None
        if type(claims.version) not in {int, NoneType}:
            return None
        return TicketHolder(claims.subject, claims.version)


@dataclass(frozen=True, slots=True)
class ApprovalTokens:
    """The tokens in the links of webhooks, each of which opens one parked call until that is decided."""

    secret: str = field(repr=False)

    def issue(self, call_id: UUID, now: datetime, expires_at: datetime | None) -> str:
        """Sign a token, the same one for the same arguments: a delivery is repeated byte by byte."""
        lifetime = min(expires_at - now, MAX_LINK_LIFETIME) if expires_at else MAX_LINK_LIFETIME
        return _sign(self.secret, FOR_APPROVALS, call_id, now, lifetime, jti=str(call_id))

    def read(self, text: str, now: datetime) -> UUID | None:
        """Return the call, or None if the token is not ours or has expired."""
        claims = _verify(self.secret, FOR_APPROVALS, CLAIMS, text)
        return claims.subject if claims and _is_in_force(claims, now, NO_LEEWAY) else None


def _sign(
    secret: str, audience: str, subject: UUID, now: datetime, lifetime: timedelta, **further: Any
) -> str:
    claims = {
        "iss": ISSUER,
        "aud": audience,
        "sub": str(subject),
        "iat": int(now.timestamp()),
        "exp": int((now + lifetime).timestamp()),
        "jti": secrets.token_urlsafe(TOKEN_ID_BYTES),
    }
    # Imported here because it is heavy (13 MB), and a service that is called with API keys never needs it.
    import jwt

    return jwt.encode({**claims, **further}, secret, ALGORITHM)


def _verify(secret: str, audience: str, required: list[str], text: str) -> Claims | None:
    """Return the claims of a token that we signed for this audience, in force or not; otherwise None."""
    import jwt  # as in `_sign`

    try:
        claims: dict[str, Any] = jwt.decode(
            text,
            secret,
            [ALGORITHM],
            audience=audience,
            issuer=ISSUER,
            options={
                "require": required,
                "verify_exp": False,
                "verify_iat": False,
                "verify_nbf": False,
            },
        )
    except (jwt.InvalidTokenError, ValueError, RecursionError):
        return None
    subject, issued_at, expires_at = parse_uuid(claims["sub"]), claims["iat"], claims["exp"]
    if subject is None or type(issued_at) is not int or type(expires_at) is not int:
        return None
    return Claims(subject, issued_at, expires_at, claims.get("version", ""))


def _is_in_force(claims: Claims, now: datetime, leeway: timedelta = LEEWAY) -> bool:
    """Return whether the token is valid now, with leeway after its end, and before its start.

    The leeway before the start is always the same, for a clock that was set back.
    """
    moment = now.timestamp()
    return claims.issued_at - LEEWAY.total_seconds() <= moment < claims.expires_at + leeway.total_seconds()
