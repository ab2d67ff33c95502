"""The forms of API keys and of the tokens of users and runs: how they are made, and how they are read."""

import hashlib
import re
import secrets
import string
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import jwt

from web.fields import parse_uuid

KEY_BYTES = 32
CODE_BYTES = 24
TOKEN_ID_BYTES = 12
PREFIX_LENGTH = 8
PREFIX_ALPHABET = string.ascii_lowercase + string.digits
KEY_TEXT = re.compile(r"hsk_([A-Za-z0-9]{8})_[A-Za-z0-9_-]{43}")

ALGORITHM = "HS256"
ISSUER = "hostsvc"
FOR_USERS = "user"
FOR_RUNS = "run"
LEEWAY = timedelta(minutes=1)
CLAIMS = ["iss", "aud", "sub", "iat", "exp"]


@dataclass(frozen=True, slots=True)
class NewKey:
    """An API key as it is shown once; kept are its prefix and its hash."""

    prefix: str
    text: str = field(repr=False)

    @property
    def hash(self) -> bytes:
        return hash_secret(self.text)


def make_key() -> NewKey:
    prefix = "".join(secrets.choice(PREFIX_ALPHABET) for _ in range(PREFIX_LENGTH))
    return NewKey(prefix, f"hsk_{prefix}_{secrets.token_urlsafe(KEY_BYTES)}")


def key_prefix(text: str) -> str | None:
    """The prefix of what looks like an API key."""
    match = KEY_TEXT.fullmatch(text)
    return match and match[1]


def make_code() -> str:
    """What lets one person in, once: an invitation's, or that of a lost password."""
    return secrets.token_urlsafe(CODE_BYTES)


def hash_secret(text: str) -> bytes:
    """Of a key or a code. The whole text is random, so a plain hash cannot be guessed back."""
    return hashlib.sha256(text.encode()).digest()


@dataclass(frozen=True, slots=True)
class UserTokens:
    """Issues and reads the tokens of users. `version` is the user's: a bump ends all older tokens."""

    secret: str = field(repr=False)
    lifetime: timedelta

    def issue(self, user_id: UUID, version: int, now: datetime) -> str:
        return _sign(self.secret, FOR_USERS, user_id, now, self.lifetime, version=version)

    def read(self, text: str, now: datetime) -> tuple[UUID, int] | None:
        """The user and the token's version; None unless we issued it and it is in force."""
        claims = _read(text, self.secret, FOR_USERS, now, "version")
        return None if claims is None else (UUID(claims["sub"]), claims["version"])


@dataclass(frozen=True, slots=True)
class RunTokens:
    """Issues and reads the tokens that runs act with. Whether a run still goes on its row says."""

    secret: str = field(repr=False)

    def issue(self, run_id: UUID, now: datetime, lifetime: timedelta) -> str:
        """`lifetime` is how long the run may take at most."""
        return _sign(self.secret, FOR_RUNS, run_id, now, lifetime)

    def read(self, text: str, now: datetime) -> UUID | None:
        """The run; None unless we issued the token and it is in force."""
        claims = _read(text, self.secret, FOR_RUNS, now)
        return None if claims is None else UUID(claims["sub"])


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
    return jwt.encode({**claims, **further}, secret, ALGORITHM)


def _read(text: str, secret: str, audience: str, now: datetime, *further: str) -> dict[str, Any] | None:
    """The claims of a token that we issued to this audience and that is in force."""
    try:
        claims: dict[str, Any] = jwt.decode(
            text,
            secret,
            [ALGORITHM],
            audience=audience,
            issuer=ISSUER,
            options={
                "require": [*CLAIMS, *further],
                "verify_exp": False,
                "verify_iat": False,
                "verify_nbf": False,
            },
        )
    except (jwt.InvalidTokenError, ValueError, RecursionError):
        return None
    is_whole = parse_uuid(claims["sub"]) is not None and _is_in_force(claims, now)
    return claims if is_whole else None


def _is_in_force(claims: dict[str, Any], now: datetime) -> bool:
    """With leeway both ways, so that a clock stepped back logs nobody out."""
    moment, leeway = now.timestamp(), LEEWAY.total_seconds()
    return bool(claims["iat"] - leeway <= moment < claims["exp"] + leeway)
