"""Checkouts of commits. Each is shared by many runs; the least recently used ones are removed."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import Context
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from hostsvc.process_harness.cache import HarnessCache, remove
from hostsvc.process_harness.git import GitFailed, Mirror, NoSuchRef, is_full_hash, require_valid_ref

log = structlog.get_logger()

LAST_KNOWN_STATE = "in its last known state; it cannot be fetched at the moment"


@dataclass(frozen=True, slots=True)
class Checkout:
    """The files of a commit. `outdated`: the repository could not be fetched, so there may be a newer one."""

    commit: str
    directory: Path
    outdated: bool = False


class Checkouts:
    """The checkouts of one repository; `open_checkouts` creates it."""

    def __init__(self, cache: HarnessCache, mirror: Mirror, max_checkouts: int) -> None:
        self._cache = cache
        self._mirror = mirror
        self._max_checkouts = max_checkouts
        self._commits = dict.fromkeys(cache.commits())  # least recently used first
        self._users: Counter[str] = Counter()
        self._pending: dict[str, asyncio.Task[None]] = {}
        self._fetch: asyncio.Task[bool] | None = None
        self._next_fetch: asyncio.Task[bool] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    @contextmanager
    def lease(self) -> Iterator["Lease"]:
        """Yield a lease for one run, whose checkout stays until the block ends."""
        lease = Lease()
        try:
            yield lease
        finally:
            if lease.checkout is not None:
                self._count_user(lease.checkout.commit, -1)

    async def check_out(self, ref: str, lease: "Lease") -> Checkout:
        """Check out the commit that the ref names now. Raise GitError if there is none.

        A full hash of a known commit needs no fetch.
        """
        require_valid_ref(ref)
        outdated, commit = False, ref
        if not (is_full_hash(ref) and ref in self._commits):
            outdated = not await self._fetch_now()
            try:
                commit = await self._mirror.resolve(ref)
            except NoSuchRef as error:
                if outdated:
                    raise GitFailed(f"{error} {LAST_KNOWN_STATE}") from error
                raise
        while not self._cache.touch(commit):
            await self._ensure_checked_out(commit)
        lease.checkout = Checkout(commit, self._cache.checkouts / commit, outdated)
        self._count_user(commit, 1)
        return lease.checkout

    async def _fetch_now(self) -> bool:
        """Wait for a fetch that starts after this call, so that it sees every commit. Return its success.

        All calls during a fetch share the next one.
        """
        if self._next_fetch is None:
            self._next_fetch = self._spawn(self._fetch_after(self._fetch))
        return await asyncio.shield(self._next_fetch)

    async def _fetch_after(self, previous: asyncio.Task[bool] | None) -> bool:
        if previous is not None:
            await asyncio.wait({previous})
        self._fetch, self._next_fetch = self._next_fetch, None
        try:
            await self._mirror.fetch()
        except GitFailed as error:
            log.warning("the repository could not be fetched", reason=str(error))
            return False
        self._spawn(self._mirror.collect_garbage())
        return True

    async def _ensure_checked_out(self, commit: str) -> None:
        """Wait until the commit is checked out; concurrent calls for one commit share the work."""
        task = self._pending.get(commit)
        if task is None:
            task = self._pending[commit] = self._spawn(self._make(commit))
            task.add_done_callback(lambda _: self._pending.pop(commit))
        await asyncio.shield(task)

    async def _make(self, commit: str) -> None:
        unfinished = await asyncio.to_thread(self._cache.make_unfinished)
        index = unfinished.with_suffix(".index")
        try:
            await self._mirror.write(commit, unfinished, index)
            await asyncio.to_thread(self._cache.publish, unfinished, commit)
        finally:
            self.remove_later(unfinished, index)

    def _count_user(self, commit: str, change: int) -> None:
        """Add or subtract a user, and remove unused checkouts over the limit, least recently used first."""
        self._commits.pop(commit, None)
        self._commits[commit] = None
        self._users[commit] += change
        unused = [commit for commit in self._commits if not self._users[commit]]
        for commit in unused[: max(0, len(self._commits) - self._max_checkouts)]:
            del self._commits[commit], self._users[commit]
            with suppress(FileNotFoundError):
                self.remove_later(self._cache.unpublish(commit))

    def remove_later(self, *trees: Path) -> None:
        """Remove the trees one after the other, or after the next start of the service."""

        async def remove_all() -> None:
            for tree in trees:
                await remove(tree)

        self._spawn(remove_all())

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        # An empty context, so that its log lines do not name the run that happened to come first.
        task = asyncio.get_running_loop().create_task(work, context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._discard)
        return task

    def _discard(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # marks it as retrieved: perhaps nobody waits for this task any more

    async def close(self) -> None:
        """Cancel all tasks and wait for their end."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass(slots=True)
class Lease:
    """One run's use of a checkout, which the block of `Checkouts.lease` ends even if it was cancelled."""

    checkout: Checkout | None = None


@asynccontextmanager
async def open_checkouts(cache: HarnessCache, mirror: Mirror, max_checkouts: int) -> AsyncIterator[Checkouts]:
    """Clean the cache and yield the checkouts; only those in use may exceed `max_checkouts`."""
    leftovers = await asyncio.to_thread(cache.prepare)
    await mirror.prepare()
    checkouts = Checkouts(cache, mirror, max_checkouts)
    checkouts.remove_later(*leftovers)
    try:
        yield checkouts
    finally:
        await checkouts.close()
