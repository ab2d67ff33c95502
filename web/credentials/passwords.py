"""Passwords: argon2id, off the event loop, through a bounded queue."""

from base64 import b64encode
from functools import partial

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from web.credentials.hash_queue import HashQueue, Lane

PASSES = 3
MEMORY_KIB = 65_536
LANES = 1

SALT = b64encode(bytes(16)).decode().rstrip("=")
DIGEST = b64encode(bytes(32)).decode().rstrip("=")
NOBODYS_HASH = f"$argon2id$v=19$m={MEMORY_KIB},t={PASSES},p={LANES}${SALT}${DIGEST}"


class Passwords:
    """Hashes and verifies passwords; a context manager.

    `recent_attempts` are those of the client's network; the queue takes those with the fewest first.
    """

    def __init__(self) -> None:
        self._hasher = PasswordHasher(time_cost=PASSES, memory_cost=MEMORY_KIB, parallelism=LANES)
        self._queue = HashQueue()

    def __enter__(self) -> "Passwords":
        self._queue.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._queue.__exit__(*error)

    @property
    def usual_seconds(self) -> float:
        """Return how long a check takes at present, without waiting for others."""
        return self._queue.usual_seconds

    async def hash(self, password: str, recent_attempts: int = 0) -> str:
        """Return the hash of a new password. Raise Unavailable if too many wait."""
        return await self._queue.run(Lane.NEW, partial(self._hasher.hash, password), recent_attempts)

    async def verify(self, password: str, stored_hash: str | None, recent_attempts: int = 0) -> bool:
        """Return whether the password is right; a missing hash takes the same time as a wrong password.

        Raise Unavailable if too many wait.
        """
        work = partial(self._verify, password, stored_hash or NOBODYS_HASH)
        return await self._queue.run(Lane.CHECK, work, recent_attempts)

    def _verify(self, password: str, stored_hash: str) -> bool:
        try:
            return self._hasher.verify(stored_hash, password)
        except (VerificationError, InvalidHashError):
            return False
