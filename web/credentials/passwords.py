"""Passwords: argon2id, in two threads at which client networks take turns."""

import asyncio
from base64 import b64encode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import perf_counter
from typing import TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from supervisors.fair_slots import FairSlots, QueueFull
from web.errors import Unavailable

PASSES = 3
MEMORY_KIB = 65_536
LANES = 1

SALT = b64encode(bytes(16)).decode().rstrip("=")
DIGEST = b64encode(bytes(32)).decode().rstrip("=")
NOBODYS_HASH = f"$argon2id$v=19$m={MEMORY_KIB},t={PASSES},p={LANES}${SALT}${DIGEST}"

THREADS = 2  # a hash takes 64 MiB and one core
MAX_WAITING = 16  # of one network
MAX_WAIT_SECONDS = 2.0
RETRY_SECONDS = 2
BUSY = "Too many passwords are being checked at the moment."

Result = TypeVar("Result")


class Passwords:
    """Hashes and verifies passwords; a context manager. `network` is that of the client.

    While `goes_last` is true for a network, it waits behind all for which it is not.
    """

    def __init__(self, goes_last: Callable[[str], bool] = lambda _: False) -> None:
        self._hasher = PasswordHasher(time_cost=PASSES, memory_cost=MEMORY_KIB, parallelism=LANES)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="passwords")
        self._turns = FairSlots[str](THREADS, MAX_WAITING, goes_last)
        self.usual_seconds = 0.1  # of one check, as the last one took

    def __enter__(self) -> "Passwords":
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(cancel_futures=True)

    async def hash(self, password: str, network: str) -> str:
        """Return the hash of a new password. Raise Unavailable if no turn comes in time."""
        return await self._run(network, partial(self._hasher.hash, password))

    async def verify(self, password: str, stored_hash: str | None, network: str) -> bool:
        """Return whether the password is right; a missing hash takes the same time as a wrong password.

        Raise Unavailable if no turn comes in time.
        """
        return await self._run(network, partial(self._verify, password, stored_hash or NOBODYS_HASH))

    async def _run(self, network: str, work: Callable[[], Result]) -> Result:
        try:
            async with asyncio.timeout(MAX_WAIT_SECONDS):
                await self._turns.take(network)
        except (TimeoutError, QueueFull):
            raise Unavailable(BUSY, RETRY_SECONDS) from None
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._turns.release(network)

    def _verify(self, password: str, stored_hash: str) -> bool:
        began = perf_counter()
        try:
            return self._hasher.verify(stored_hash, password)
        except (VerificationError, InvalidHashError):
            return False
        finally:
            self.usual_seconds = perf_counter() - began
