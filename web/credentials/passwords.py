"""Passwords: argon2id, off the event loop, two at a time."""

import asyncio
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

PASSES = 3
MEMORY_KIB = 65_536
LANES = 1
AT_ONCE = 2  # a hash takes 64 MiB and one core

SALT = b64encode(bytes(16)).decode().rstrip("=")
DIGEST = b64encode(bytes(32)).decode().rstrip("=")
NOBODYS_HASH = f"$argon2id$v=19$m={MEMORY_KIB},t={PASSES},p={LANES}${SALT}${DIGEST}"


class Passwords:
    """The threads that hash and verify passwords; a context manager."""

    def __init__(self) -> None:
        self._hasher = PasswordHasher(time_cost=PASSES, memory_cost=MEMORY_KIB, parallelism=LANES)
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="passwords")

    def __enter__(self) -> "Passwords":
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(cancel_futures=True)

    async def hash(self, password: str) -> str:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._hasher.hash, password)

    async def verify(self, password: str, stored_hash: str | None) -> bool:
        """Return whether the password is right; a missing hash takes the same time as a wrong password."""
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, self._verify, password, stored_hash or NOBODYS_HASH
        )

    def _verify(self, password: str, stored_hash: str) -> bool:
        try:
            return self._hasher.verify(stored_hash, password)
        except (VerificationError, InvalidHashError):
            return False
