"""The forms of API keys and user tokens: how they are made, and how what a caller shows is read."""

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
PREFIX_LENGTH = 8
PREFIX_ALPHABET = string.ascii_lowercase + string.digits
KEY_TEXT = re.compile(r"hsk_([A-Za-z0-9]{8})_[A-Za-z0-9_-]{43}")

ALGORITHM = "HS256"
ISSUER = "hostsvc"
AUDIENCE = "user"
LEEWAY = timedelta(minutes=1)
CLAIMS = ["iss", "aud", "sub", "iat", "exp", "version"]


@dataclass(frozen=True, slots=True)
class NewKey:
    """An API key as it is shown once; kept are its prefix and its hash."""

    prefix: str
    text: str = field(repr=False)

    @property
    def hash(self) -> bytes:
        return hash_key(self.text)


def make_key() -> NewKey:
    prefix = "".join(secrets.choice(PREFIX_ALPHABET) for _ in range(PREFIX_LENGTH))
    return NewKey(prefix, f"hsk_{prefix}_{secrets.token_urlsafe(KEY_BYTES)}")


def key_prefix(text: str) -> str | None:
    """The prefix of what looks like an API key."""
    match = KEY_TEXT.fullmatch(text)
    return match and match[1]


def hash_key(text: str) -> bytes:
    """The whole key is random, so a plain hash cannot be guessed back."""
    return hashlib.sha256(text.encode()).digest()


@dataclass(frozen=True, slots=True)
class UserTokens:
    """Issues and reads the tokens of users. `version` is the user's: a bump ends all older tokens."""

    secret: str = field(repr=False)
    lifetime: timedelta

    def issue(self, user_id: UUID, version: int, now: datetime) -> str:
        claims = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": str(user_id),
            "iat": int(now.timestamp()),
            "exp": int((now + self.lifetime).timestamp()),
            "version": version,
        }
        return jwt.encode(claims, self.secret, ALGORITHM)

    def read(self, text: str, now: datetime) -> tuple[UUID, int] | None:
        """The user and the token's version; None unless we issued it and it is in force."""
        try:
            claims = jwt.decode(
                text,
                self.secret,
                [ALGORITHM],
                audience=AUDIENCE,
                issuer=ISSUER,
                options={"require": CLAIMS, "verify_exp": False, "verify_iat": False, "verify_nbf": False},
            )
        except (jwt.InvalidTokenError, ValueError, RecursionError):
            return None
        user_id = parse_uuid(claims["sub"])
        if user_id is None or not _is_in_force(claims, now):
            return None
        return user_id, claims["version"]


def _is_in_force(claims: dict[str, Any], now: datetime) -> bool:
    """With leeway both ways, so that a clock stepped back logs nobody out."""
    moment, leeway = now.timestamp(), LEEWAY.total_seconds()
    return bool(claims["iat"] - leeway <= moment < claims["exp"] + leeway)
