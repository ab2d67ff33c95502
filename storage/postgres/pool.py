"""The pool of connections to PostgreSQL, with a limit on every wait."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn, TypeAlias, TypeVar, cast

import asyncpg
import asyncpg.pool
import structlog

from storage.errors import DatabaseReadOnly, DatabaseUnavailable, NoAnswer, RowLocked, SchemaChanged
from storage.histogram import Histogram
from storage.postgres.asker import ASKER, is_audited
from storage.postgres.connections import (
    CONNECT_TIMEOUT_SECONDS,
    SERVER_SETTINGS,
    Fence,
    PooledConnection,
    drop,
    open_connection,
    prepare,
    reraise,
)
from storage.postgres.connections import Connection as Connection  # the modules above import it from here
from storage.postgres.group_commit import MAX_GROUP_ITEMS, GroupCommit
from storage.postgres.translation import storage_error, translated

LentConnection: TypeAlias = "asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"
InnerPool: TypeAlias = "asyncpg.Pool[asyncpg.Record]"
Item = TypeVar("Item")
Result = TypeVar("Result")
Fetch: TypeAlias = "Callable[..., Awaitable[list[asyncpg.Record]]]"
"""Runs a statement and returns its rows: `Pool.fetch`, `Pool.change`, or `fetch` of a connection."""

LIMIT_WAIT = "1s"  # for rows that another transaction may hold for long
BRIEF_WAIT = "50ms"  # longer than a write of the service holds a row
WAIT_FOR_ROWS = "SELECT set_config('lock_timeout', $1, true)"
TELL_ASKER = """
SELECT set_config('hostsvc.actor', $1, true), set_config('hostsvc.address', $2, true),
       set_config('lock_timeout', coalesce($3, current_setting('lock_timeout')), true)
"""
CONNECTIONS_PER_WAITER = 4  # one connection in four may wait longer than that for a row

CLOSE_TIMEOUT_SECONDS = 10.0
GIVEN_UP = (TimeoutError, asyncio.CancelledError)  # a statement may still be waiting for the server
NO_LIMIT = 2**62  # statements until asyncpg replaces a connection: age decides, not use

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """The address of the database and the limits on waiting for it. The URL may contain a password."""

    url: str = field(repr=False)
    pool_size: int = 10
    acquire_timeout_seconds: float = 5.0
    command_timeout_seconds: float = 30.0

    def __post_init__(self) -> None:
        if not self.url:
            raise ValueError("url must not be blank")
        if self.pool_size < 1:
            raise ValueError(f"pool_size must be at least 1, got {self.pool_size}")
        if self.acquire_timeout_seconds <= 0 or self.command_timeout_seconds <= 0:
            raise ValueError("timeouts must be above 0")


@dataclass(frozen=True, slots=True)
class PoolSize:
    """The connections of this instance to the database."""

    connections: int
    """How many are open."""
    idle: int
    """How many of them do nothing."""
    waiting: int
    """How many callers wait for one."""


class Pool:
    """The connections of one instance.

    Use `fetch`, `fetchrow`, `fetchval` or `execute` for one statement, `change` for one that writes events,
    and `write` for what several statements change.
    """

    def __init__(self, inner: InnerPool, spare: InnerPool, settings: DatabaseSettings) -> None:
        # Called with each error that says more about the database than about one row.
        self.on_failure: Callable[[DatabaseUnavailable], None] = lambda _: None
        # Called after each commit that may have written events.
        self.on_write: Callable[[], None] = lambda: None
        self._inner = inner
        self._spare = spare
        self._settings = settings
        self._waiters = asyncio.Semaphore(max(1, settings.pool_size // CONNECTIONS_PER_WAITER))
        self._waiting = 0
        self._writes: set[asyncio.Task[Any]] = set()
        self._groups: list[GroupCommit[Any, Any]] = []
        self.commits: dict[str, Histogram] = {}  # of group commits that write, by their names

    def __repr__(self) -> str:
        return f"<Pool {self.size()}>"

    async def fetch(self, sql: str, *args: Any) -> list[asyncpg.Record]:
        async with self._lend(sql) as connection:
            return await connection.fetch(sql, *args)

    async def fetchrow(self, sql: str, *args: Any) -> asyncpg.Record | None:
        async with self._lend(sql) as connection:
            return await connection.fetchrow(sql, *args)

    async def fetchval(self, sql: str, *args: Any) -> Any:
        async with self._lend(sql) as connection:
            return await connection.fetchval(sql, *args)

    async def execute(self, sql: str, *args: Any) -> str:
        async with self._lend(sql) as connection:
            return await connection.execute(sql, *args)

    async def change(self, sql: str, *args: Any) -> list[asyncpg.Record]:
        """Return the rows of a single statement that may write events, and announce these."""
        try:
            return await self.fetch(sql, *args)
        finally:
            self.on_write()  # also if the answer was lost: it may have been committed

    async def write(
        self,
        work: Callable[[Connection], Awaitable[Result]],
        name: str,
        then: Callable[[Result], None] = lambda _: None,
    ) -> Result:
        """Run `work` in a transaction of its own, then call `then` with its result and announce its events.

        Once begun it is completed, even if the caller is cancelled, in a task called `name`. If a row is
        locked, `work` is called again in a new transaction, which waits up to a second for each lock. Only a
        few callers wait so long at a time; the others wait for their turn without a connection, so other work
        goes on. Raise RowLocked if the rows stay locked.
        """
        task = asyncio.create_task(self._write(work, then), name=name)
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_log_failure)
            raise

    @asynccontextmanager
    async def transaction(self, lock_timeout: str | None = None) -> AsyncIterator[Connection]:
        """Yield a connection inside BEGIN … COMMIT; roll back if the body raises or is cancelled.

        The server is told who asks for what the body writes, and how long it may wait for locked rows.
        """
        asker = ASKER.get()
        async with self._connection() as connection:
            transaction = connection.transaction()
            await transaction.start()
            try:
                if asker is not None:
                    await connection.execute(TELL_ASKER, asker.actor, asker.get_address(), lock_timeout)
                elif lock_timeout is not None:
                    await connection.execute(WAIT_FOR_ROWS, lock_timeout)
                yield connection
            except GIVEN_UP:
                raise  # the connection is dropped: a rollback would wait for the statement as long again
            except BaseException:
                await transaction.rollback()
                raise
            await transaction.commit()

    @asynccontextmanager
    async def locking(self, sql: str, *args: Any) -> AsyncIterator[Connection]:
        """Yield a transaction that starts with the lock `sql` takes. Wait for it like `write`."""
        is_locked = False
        try:
            async with self.transaction(BRIEF_WAIT) as connection:
                await connection.execute(sql, *args)
                is_locked = True
                await connection.execute(WAIT_FOR_ROWS, LIMIT_WAIT)
                yield connection
        except RowLocked:
            if is_locked:
                raise
        if not is_locked:
            async with self._turn_to_wait(), self.transaction(LIMIT_WAIT) as connection:
                await connection.execute(sql, *args)
                yield connection
        self.on_write()

    @asynccontextmanager
    async def spare(self) -> AsyncIterator[Connection]:
        """Yield the connection that is kept beyond `pool_size`, for one caller at a time."""
        async with self._connection(self._spare) as connection:
            yield connection

    async def renew_connections(self) -> None:
        """Replace each connection before its next use.

        A session that lives for ever keeps settings that have changed since, and the server's memory.
        """
        await self._inner.expire_connections()
        await self._spare.expire_connections()

    def size(self) -> PoolSize:
        return PoolSize(self._inner.get_size(), self._inner.get_idle_size(), self._waiting)

    def group_commit(
        self,
        name: str,
        flush: Callable[[list[Item]], Awaitable[list[Result]]],
        *,
        max_items: int = MAX_GROUP_ITEMS,
        is_write: bool = False,
    ) -> GroupCommit[Item, Result]:
        """Return a group commit that flushes its items before the pool closes."""
        group = GroupCommit(name, flush, max_items=max_items)
        if is_write:
            group.durations = self.commits[name] = Histogram()
        self._groups.append(group)
        return group

    async def finish_writes(self) -> None:
        """Refuse further items of group commits, and wait for those that are pending and for all writes."""
        for group in self._groups:
            await group.close()
        while self._writes:
            await asyncio.wait(self._writes)

    async def _write(
        self, work: Callable[[Connection], Awaitable[Result]], then: Callable[[Result], None]
    ) -> Result:
        try:
            result = await self._attempt(work, BRIEF_WAIT)
        except (RowLocked, DatabaseReadOnly, SchemaChanged):  # none had an effect
            async with self._turn_to_wait():
                result = await self._attempt(work, LIMIT_WAIT)
        then(result)
        self.on_write()
        return result

    async def _attempt(self, work: Callable[[Connection], Awaitable[Result]], limit: str) -> Result:
        async with self.transaction(limit) as connection:
            return await work(connection)

    def _lend(self, sql: str) -> AbstractAsyncContextManager[Connection]:
        """Return a connection for one statement, in a transaction if it is audited for somebody who asks."""
        return self.transaction() if ASKER.get() is not None and is_audited(sql) else self._connection()

    @asynccontextmanager
    async def _turn_to_wait(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._settings.acquire_timeout_seconds):
                await self._waiters.acquire()
        except TimeoutError:
            raise RowLocked("too many requests are waiting for locked rows") from None
        try:
            yield
        finally:
            self._waiters.release()

    @asynccontextmanager
    async def _connection(self, pool: "InnerPool | None" = None) -> AsyncIterator[LentConnection]:
        pool = pool or self._inner
        self._waiting += 1
        try:
            try:
                connection = await pool.acquire(timeout=self._settings.acquire_timeout_seconds)
            except TimeoutError:
                raise NoAnswer("no connection to the database became free in time") from None
            except asyncpg.InterfaceError as error:  # closing, or the new connection died at once
                raise DatabaseUnavailable(str(error)) from error
            finally:
                self._waiting -= 1
            try:
                yield connection
            except GIVEN_UP:
                drop(connection)  # else the caller would wait for the end of the statement as well
                raise
            except Exception as error:
                reraise(error, connection)
            finally:
                await pool.release(connection)
        except Exception as error:
            await self._report(error)

    async def _report(self, error: Exception) -> NoReturn:
        """Raise the error of storage, and report it if it says more about the database than about one row."""
        known = storage_error(error)
        if isinstance(known, DatabaseReadOnly):
            await self.renew_connections()  # others may have the same setting
        if isinstance(known, DatabaseUnavailable) and not isinstance(known, RowLocked | SchemaChanged):
            self.on_failure(known)
        if known is None or known is error:
            raise error
        raise known from error


async def keep_session(_: Any) -> None:
    """Replace asyncpg's reset between two users of a connection.

    The reset would release all advisory locks, the fence of the node among them, and cost a round trip. The
    service changes no session settings, and asyncpg rolls back an open transaction before it calls this.
    """


def _log_failure(task: asyncio.Task[Any]) -> None:
    error = None if task.cancelled() else task.exception()
    if isinstance(error, DatabaseUnavailable):  # reported to the pool
        _log.debug("a write failed after its caller was cancelled", task=task.get_name(), reason=str(error))
    elif error is not None:
        _log.error("a write failed after its caller was cancelled", task=task.get_name(), exc_info=error)


@asynccontextmanager
async def open_pool(settings: DatabaseSettings, *, node: Fence | None) -> AsyncIterator[Pool]:
    """Open the pool of a node, which the others can fence; None for tests and tools, which are none.

    While the node has the connection of its beat, the pool connects only to the same server.
    """
    create = partial(
        asyncpg.create_pool,
        settings.url,
        # asyncpg would restore a minimum in a task of its own, and log a traceback at each attempt while the
        # database is unavailable.
        min_size=0,
        max_queries=NO_LIMIT,
        max_inactive_connection_lifetime=0,
        timeout=CONNECT_TIMEOUT_SECONDS,
        command_timeout=settings.command_timeout_seconds,
        server_settings=SERVER_SETTINGS,
        connection_class=PooledConnection,
        connect=cast(Any, open_connection),  # the stubs expect the parameters of asyncpg.connect
        init=partial(prepare, node=node),
        reset=keep_session,
    )
    with translated():
        inner = await create(init_size=1, max_size=settings.pool_size)
        spare = await create(init_size=0, max_size=1)
    pool = Pool(inner, spare, settings)
    try:
        yield pool
    finally:
        await _close(pool, inner, spare)


async def _close(pool: Pool, *inner_pools: InnerPool) -> None:
    try:
        async with asyncio.timeout(CLOSE_TIMEOUT_SECONDS):
            await pool.finish_writes()
            for inner in inner_pools:
                await inner.close()
    except TimeoutError:
        _log.warning("connections were still in use when the pool closed", size=pool.size())
        for inner in inner_pools:
            inner.terminate()
