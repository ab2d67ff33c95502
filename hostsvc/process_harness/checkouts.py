"""Checkouts of commits. Each is shared by many runs; the least recently used ones are removed."""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from contextvars import Context
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import structlog

from hostsvc.process_harness.cache import HarnessCache
from hostsvc.process_harness.git import GitFailed, Mirror, NoSuchRef, is_full_hash, require_valid_ref
from hostsvc.process_harness.programs import remove, run_program

log = structlog.get_logger()

LAST_KNOWN_STATE = "in its last known state; it cannot be fetched at the moment"
SEALED = "a=rX"  # of chmod: readable by everybody and writable by nobody; programs stay executable


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
        self._users: Counter[str] = Counter()  # of each commit
        self._pending: dict[str, asyncio.Task[None]] = {}
        self._fetch: asyncio.Task[bool] | None = None
        self._next_fetch: asyncio.Task[bool] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    @asynccontextmanager
    async def check_out(self, ref: str) -> AsyncIterator[Checkout]:
        """Check out the commit that the ref names now, for the block. Raise GitError if there is none.

        A full hash of a known commit needs no fetch.
        """
        require_valid_ref(ref)
        outdated, commit = False, ref
        if not (is_full_hash(ref) and self._directory(ref).exists()):
            outdated = not await self._fetch_now()
            commit = await self._resolve(ref, outdated)
        self._users[commit] += 1  # from here on it is not removed
        try:
            if not self._directory(commit).exists():
                await self._ensure_checked_out(commit)
            yield Checkout(commit, self._directory(commit), outdated)
        finally:
            self._release(commit)

    def _directory(self, commit: str) -> Path:
        return self._cache.checkouts / commit

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

    async def _resolve(self, ref: str, outdated: bool) -> str:
        try:
            return await self._mirror.resolve(ref)
        except NoSuchRef as error:
            if outdated:
                raise GitFailed(f"{error} {LAST_KNOWN_STATE}") from error
            raise

    async def _ensure_checked_out(self, commit: str) -> None:
        """Wait until the commit is checked out; concurrent calls for one commit share the work."""
        task = self._pending.get(commit)
        if task is None:
            task = self._pending[commit] = self._spawn(self._make(commit))
            task.add_done_callback(lambda _: self._pending.pop(commit))
        await asyncio.shield(task)

    async def _make(self, commit: str) -> None:
        unfinished = Path(mkdtemp(dir=self._cache.unfinished))
        tree = unfinished / "tree"
        try:
            tree.mkdir()
            await self._mirror.write(commit, tree, unfinished / "index")
            sealed = await run_program("chmod", "-R", SEALED, "--", str(tree))
            if sealed.code:
                log.error("a checkout could not be made read-only", reason=sealed.errors)
                raise GitFailed("its files could not be made read-only")
            tree.chmod(0o755)  # a directory without write permission cannot be moved
            tree.rename(self._directory(commit)).chmod(0o555)
        finally:
            self.remove_later(unfinished)

    def _release(self, commit: str) -> None:
        """Subtract a user, and remove unused checkouts over the limit, least recently used first."""
        self._users -= Counter((commit,))
        with suppress(FileNotFoundError):  # it could not be made, or somebody removed it
            os.utime(self._directory(commit))
            present = sorted(self._cache.checkouts.iterdir(), key=lambda path: path.stat().st_mtime)
            unused = [path for path in present if path.name not in self._users]
            for path in unused[: max(0, len(present) - self._max_checkouts)]:
                self.remove_later(self._cache.move_aside(path))

    def remove_later(self, *trees: Path) -> None:
        """Remove the trees in the background; what this service leaves, its next start removes."""
        self._spawn(remove(*trees))

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
