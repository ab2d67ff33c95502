"""Tokens whose signature was verified before: that takes longer than anything else in most requests."""

from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from typing import Any, NamedTuple
from uuid import UUID

MAX_TOKENS = 10_000  # some 5 MB
EXAMINED = 4  # tokens for each new one, so that expired ones are dropped faster than new ones come


class Claims(NamedTuple):
    """The statements of a token about itself. Times are in seconds since 1970."""

    subject: UUID
    issued_at: int
    expires_at: int
    version: Any  # blank if the token does not name one


class VerifiedTokens:
    """The claims of verified tokens, by the hash of their text.

    Claims depend on nothing but the text, so they are exact. Each reader still has to check the times, and to
    ask the database about the subject. The text itself, which is secret, is not kept, nor are refused tokens,
    and no token is used from here once it has expired.
    """

    def __init__(self, max_tokens: int = MAX_TOKENS) -> None:
        self._max_tokens = max_tokens
        self._claims: OrderedDict[bytes, Claims] = OrderedDict()

    def __repr__(self) -> str:
        return f"<VerifiedTokens: {len(self)}>"

    def __len__(self) -> int:
        return len(self._claims)

    def read(self, text: str, verify: Callable[[str], Claims | None], now: float) -> Claims | None:
        """Return the claims of a token that `verify` accepts, or has accepted before; otherwise None."""
        digest = sha256(text.encode(errors="surrogatepass")).digest()
        claims = self._claims.get(digest)
        if claims is not None:
            if now < claims.expires_at:
                return claims
            del self._claims[digest]
        claims = verify(text)
        if claims is not None and now < claims.expires_at:
            self._make_room(now)
            self._claims[digest] = claims
        return claims

    def _make_room(self, now: float) -> None:
        """Drop expired tokens among the oldest; if there is no room then, drop the oldest."""
        examined = [self._claims.popitem(last=False) for _ in range(min(EXAMINED, len(self)))]
        self._claims.update((digest, claims) for digest, claims in examined if now < claims.expires_at)
        if len(self) >= self._max_tokens:
            self._claims.popitem(last=False)
