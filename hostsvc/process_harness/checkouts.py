"""Checked-out commits: each is made once, used by many runs, and goes when others were used since."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import Context
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from hostsvc.process_harness.cache import HarnessCache
from hostsvc.process_harness.directory_trees import remove
from hostsvc.process_harness.git import GitFailed, Mirror, NoSuchRef, is_full_hash, require_sound

log = structlog.get_logger()

AS_FAR_AS_KNOWN = "as far as is known: it cannot be fetched at the moment"


@dataclass(frozen=True, slots=True)
class Checkout:
    """A commit's files. `outdated`: the newest state of the repository was not to be had."""

    commit: str
    directory: Path
    outdated: bool = False


class Checkouts:
    """Fits runs with the code they ask for; `open_checkouts` makes one."""

    def __init__(self, cache: HarnessCache, mirror: Mirror, most: int) -> None:
        self._cache = cache
        self._mirror = mirror
        self._most = most
        self._known = dict.fromkeys(cache.commits())  # least recently used first
        self._users: Counter[str] = Counter()
        self._in_the_making: dict[str, asyncio.Task[None]] = {}
        self._fetch: asyncio.Task[bool] | None = None
        self._next_fetch: asyncio.Task[bool] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    def __repr__(self) -> str:
        return f"<Checkouts: {len(self._known)} of {self._most}, {self._users.total()} users>"

    @contextmanager
    def lease(self) -> Iterator["Lease"]:
        """A place for one run's checkout, which stays as long as the block lasts."""
        lease = Lease(self)
        try:
            yield lease
        finally:
            if lease.checkout is not None:
                self._note_use(lease.checkout.commit, users=-1)

    async def take(self, ref: str, lease: "Lease") -> Checkout:
        """Check out what the ref is at this moment; a commit named in full needs no fetch if it is here.

        Raises GitError.
        """
        require_sound(ref)
        outdated, commit = False, ref
        if not (is_full_hash(ref) and ref in self._known):
            outdated = not await self._fetched()
            try:
                commit = await self._mirror.resolve(ref)
            except NoSuchRef as error:
                if outdated:
                    raise GitFailed(f"{error}, {AS_FAR_AS_KNOWN}") from error
                raise
        while not self._cache.touch(commit):
            await self._made(commit)
        lease.checkout = Checkout(commit, self._cache.checkouts / commit, outdated)
        self._note_use(commit, users=1)
        return lease.checkout

    async def _fetched(self) -> bool:
        """Wait for a fetch that has not begun yet, so that it sees all there is; whether it succeeded.

        All who come while one is under way share the next.
        """
        if self._next_fetch is None:
            self._next_fetch = self._spawn(self._fetch_after(self._fetch))
        return await asyncio.shield(self._next_fetch)

    async def _fetch_after(self, earlier: asyncio.Task[bool] | None) -> bool:
        if earlier is not None:
            await asyncio.wait({earlier})
        self._fetch, self._next_fetch = self._next_fetch, None
        try:
            await self._mirror.fetch()
        except GitFailed as error:
            log.warning("the repository could not be fetched", reason=str(error))
            return False
        self._spawn(self._mirror.tidy())
        return True

    async def _made(self, commit: str) -> None:
        """Wait until the commit is checked out; all who want it wait for the same."""
        task = self._in_the_making.get(commit)
        if task is None:
            task = self._in_the_making[commit] = self._spawn(self._make(commit))
            task.add_done_callback(lambda _: self._in_the_making.pop(commit))
        await asyncio.shield(task)

    async def _make(self, commit: str) -> None:
        fresh = await asyncio.to_thread(self._cache.begin)
        index = fresh.with_suffix(".index")
        try:
            await self._mirror.write(commit, fresh, index)
            await asyncio.to_thread(self._cache.keep, fresh, commit)
        finally:
            for left in (fresh, index):
                await asyncio.to_thread(remove, left)

    def _note_use(self, commit: str, *, users: int) -> None:
        """Let go of what was not used for the longest time; what is in use stays, however much that is."""
        self._known.pop(commit, None)
        self._known[commit] = None
        self._users[commit] += users
        idle = [commit for commit in self._known if not self._users[commit]]
        for commit in idle[: max(0, len(self._known) - self._most)]:
            del self._known[commit], self._users[commit]
            with suppress(FileNotFoundError):
                aside = self._cache.set_aside(commit)
                self._spawn(asyncio.to_thread(remove, aside))

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        # In a context of its own: what it logs is not about the run that happened to be first.
        task = asyncio.get_running_loop().create_task(work, context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waited has it; perhaps nobody waits any more

    async def close(self) -> None:
        """End what is under way."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass(slots=True)
class Lease:
    """One run's hold on a checkout. Whatever cuts the taking short, what was taken is let go of."""

    source: Checkouts
    checkout: Checkout | None = None

    async def take(self, ref: str) -> Checkout:
        """Raises GitError."""
        return await self.source.take(ref, self)


@asynccontextmanager
async def open_checkouts(cache: HarnessCache, mirror: Mirror, most: int) -> AsyncIterator[Checkouts]:
    """Checkouts for as long as the block lasts."""
    await asyncio.to_thread(cache.clear)
    await mirror.prepare()
    checkouts = Checkouts(cache, mirror, most)
    try:
        yield checkouts
    finally:
        await checkouts.close()
