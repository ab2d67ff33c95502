"""The pool of connections to PostgreSQL, with a limit on every wait."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias, TypeVar, cast

import asyncpg
import asyncpg.pool
import structlog

from storage.errors import DatabaseReadOnly, DatabaseUnavailable, NoAnswer, RowLocked
from storage.postgres.connections import (
    CONNECT_TIMEOUT_SECONDS,
    SERVER_SETTINGS,
    Epoch,
    PooledConnection,
    check_liveness,
    drop,
    is_ready,
    keep_session,
    open_connection,
    prepare,
    translated,
)
from storage.postgres.connections import Connection as Connection  # the modules above import it from here

LentConnection: TypeAlias = "asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"
Result = TypeVar("Result")

LIMIT_WAIT = "SET LOCAL lock_timeout = '1s'"  # for rows that another transaction may hold for long
BRIEF_WAIT = "SET LOCAL lock_timeout = '50ms'"  # longer than a write of the service holds a row
CONNECTIONS_PER_WAITER = 4  # one connection in four may wait longer than that for a row

CLOSE_TIMEOUT_SECONDS = 10.0
SPARE_CONNECTIONS = 1  # beyond `pool_size`: to open a connection before another is closed, and to probe
_NO_LIMIT = 2**62  # queries until asyncpg replaces a connection, for which there is no reason

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """The address of the database and the limits on waiting for it. The URL may contain a password."""

    url: str = field(repr=False)
    pool_size: int = 10
    acquire_timeout_seconds: float = 5.0
    command_timeout_seconds: float = 30.0
    max_connection_seconds: float = 1800.0

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

    Use `fetch`, `fetchrow`, `fetchval` or `execute` for one statement, `transaction` for several, and
    `run_to_completion` for a write whose result must be known even if its caller is cancelled.

    asyncpg's pool makes the connections. It lends each one through tasks, which would take most of the time
    of a short statement, so a connection that was returned in order stays here for the next caller.
    """

    def __init__(self, inner: "asyncpg.Pool[asyncpg.Record]", settings: DatabaseSettings) -> None:
        # Called with each error that says more about the database than about one row.
        self.on_failure: Callable[[DatabaseUnavailable], None] = lambda _: None
        self._inner = inner
        self._settings = settings
        self._free = asyncio.Semaphore(settings.pool_size)
        self._waiters = asyncio.Semaphore(max(1, settings.pool_size // CONNECTIONS_PER_WAITER))
        self._idle: list[LentConnection] = []
        self._is_closing = False
        self._waiting = 0
        self._writes: set[asyncio.Task[Any]] = set()
        self._returns: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<Pool {self.size()}>"

    async def fetch(self, sql: str, *args: Any) -> list[asyncpg.Record]:
        try:
            async with self._connection() as connection:
                return await connection.fetch(sql, *args)
        except DatabaseReadOnly:
            async with self._connection() as connection:  # a new one; the statement had no effect
                return await connection.fetch(sql, *args)

    async def fetchrow(self, sql: str, *args: Any) -> asyncpg.Record | None:
        try:
            async with self._connection() as connection:
                return await connection.fetchrow(sql, *args)
        except DatabaseReadOnly:
            async with self._connection() as connection:
                return await connection.fetchrow(sql, *args)

    async def fetchval(self, sql: str, *args: Any) -> Any:
        try:
            async with self._connection() as connection:
                return await connection.fetchval(sql, *args)
        except DatabaseReadOnly:
            async with self._connection() as connection:
                return await connection.fetchval(sql, *args)

    async def execute(self, sql: str, *args: Any) -> str:
        try:
            async with self._connection() as connection:
                return await connection.execute(sql, *args)
        except DatabaseReadOnly:
            async with self._connection() as connection:
                return await connection.execute(sql, *args)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """Yield a connection inside BEGIN … COMMIT; roll back if the body raises or is cancelled."""
        async with self._connection() as connection:
            transaction = connection.transaction()
            await transaction.start()
            try:
                yield connection
            except TimeoutError:
                drop(connection)  # a rollback would wait for the statement as long again
                raise
            except BaseException:
                await transaction.rollback()
                raise
            await transaction.commit()

    async def run_to_completion(self, write: Coroutine[Any, Any, Result], name: str) -> Result:
        """Run `write` to its end even if the caller is cancelled, in a task called `name`."""
        task = asyncio.create_task(write, name=name)
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_log_failure)
            raise

    def size(self) -> PoolSize:
        idle = self._inner.get_idle_size() + len(self._idle)
        return PoolSize(self._inner.get_size(), idle, self._waiting)

    async def finish_writes(self) -> None:
        """Wait for the writes whose callers were cancelled."""
        while self._writes:
            await asyncio.wait(self._writes)

    async def release_all(self) -> None:
        """Return all connections to asyncpg's pool; those in use follow when their callers return them."""
        self._is_closing = True
        while self._idle:
            await self._inner.release(self._idle.pop())

    async def with_lock_retry(self, write: Callable[[Connection], Awaitable[Result]]) -> Result:
        """Run `write` in a transaction that waits for locked rows. Raise RowLocked if they stay locked.

        After a brief first attempt only a few callers wait, a second each; the others wait for their turn
        without a connection, so other work goes on. `write` may be called twice.
        """
        with suppress(RowLocked, DatabaseReadOnly):
            async with self.transaction() as connection:
                await connection.execute(BRIEF_WAIT)
                return await write(connection)
        async with self._turn_to_wait(), self.transaction() as connection:
            await connection.execute(LIMIT_WAIT)
            return await write(connection)

    @asynccontextmanager
    async def locking(self, sql: str, *args: Any) -> AsyncIterator[Connection]:
        """Yield a transaction that starts with the lock `sql` takes. Wait for it like `with_lock_retry`."""
        is_locked = False
        try:
            async with self.transaction() as connection:
                await connection.execute(BRIEF_WAIT)
                await connection.execute(sql, *args)
                is_locked = True
                await connection.execute(LIMIT_WAIT)
                yield connection
        except RowLocked:
            if is_locked:
                raise
        if is_locked:
            return
        async with self._turn_to_wait(), self.transaction() as connection:
            await connection.execute(LIMIT_WAIT)
            await connection.execute(sql, *args)
            yield connection

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
    async def spare(self) -> AsyncIterator[Connection]:
        """Yield a connection without waiting for a turn; for one caller at a time.

        If the block raises, the connection is closed, because it may still be waiting for the server.
        """
        with translated():
            connection = await self._take(self._settings.acquire_timeout_seconds)
            try:
                with check_liveness(connection):
                    yield connection
            except BaseException:
                drop(connection)
                raise
            if len(self._idle) < self._settings.pool_size and not self._is_closing:
                self._idle.append(connection)
            else:
                drop(connection)

    async def renew_connections(self) -> None:
        """Replace the idle connections that are dead or old, each after a new one is open.

        A session that lives for ever keeps settings that have changed since, and the server's memory.
        """
        for _ in range(sum(map(self._is_old, self._idle))):
            waited_seconds = await self._wait_for_turn()
            try:
                await self._renew_one(self._settings.acquire_timeout_seconds - waited_seconds)
            finally:
                self._free.release()

    async def _renew_one(self, seconds: float) -> None:
        old = next(filter(self._is_old, self._idle), None)
        if old is None:
            return
        self._idle.remove(old)
        try:
            with translated():
                new = await self._inner.acquire(timeout=seconds)
        except BaseException:
            self._idle.append(old)
            raise
        self._idle.append(new)
        drop(old)

    def _is_old(self, connection: LentConnection) -> bool:
        now = asyncio.get_running_loop().time()
        return not is_ready(connection) or cast(PooledConnection, connection).renew_at <= now

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[LentConnection]:
        try:
            with translated():
                waited_seconds = await self._wait_for_turn()
                try:
                    connection = await self._take(self._settings.acquire_timeout_seconds - waited_seconds)
                except BaseException:
                    self._free.release()
                    raise
                try:
                    with check_liveness(connection):
                        yield connection
                except BaseException:
                    self._return_later(connection)
                    raise
                if self._is_closing:
                    self._return_later(connection)
                else:
                    self._idle.append(connection)
                    self._free.release()
        except DatabaseUnavailable as error:
            self._handle_failure(error)
            raise

    def _handle_failure(self, error: DatabaseUnavailable) -> None:
        if isinstance(error, DatabaseReadOnly):
            # Sessions opened at the same time may have the same setting: the next caller gets a new one.
            while self._idle:
                drop(self._idle.pop())
        if not isinstance(error, RowLocked):
            self.on_failure(error)

    def _return_later(self, connection: LentConnection) -> None:
        """Return a connection to asyncpg's pool, and its turn to the next caller.

        Its statement may still be running: asyncpg cancels that, and waits for the end before it lends the
        connection again. The caller does not wait for this.
        """
        task = asyncio.create_task(self._return(connection), name="return of a connection")
        self._returns.add(task)
        task.add_done_callback(self._returns.discard)

    async def _return(self, connection: LentConnection) -> None:
        try:
            await self._inner.release(connection)
        except Exception as error:  # the outermost edge of the task; asyncpg has closed the connection
            _log.debug("a connection could not be reused", reason=repr(error))
        finally:
            self._free.release()

    async def _wait_for_turn(self) -> float:
        """Wait until this caller may use a connection, and return for how many seconds it has waited."""
        if not self._free.locked():
            await self._free.acquire()  # does not wait
            return 0.0
        loop = asyncio.get_running_loop()
        started_at = loop.time()
        self._waiting += 1
        try:
            async with asyncio.timeout(self._settings.acquire_timeout_seconds):
                await self._free.acquire()
        except TimeoutError:
            raise NoAnswer("no connection to the database became free in time") from None
        finally:
            self._waiting -= 1
        return loop.time() - started_at

    async def _take(self, seconds: float) -> LentConnection:
        while self._idle:
            if is_ready(connection := self._idle.pop()):
                return connection
            drop(connection)
        try:
            return await self._inner.acquire(timeout=seconds)
        except asyncpg.InterfaceError as error:
            raise DatabaseUnavailable(str(error)) from error  # closing, or the new connection died at once


def _log_failure(task: asyncio.Task[Any]) -> None:
    error = None if task.cancelled() else task.exception()
    if isinstance(error, DatabaseUnavailable):  # reported to the pool
        _log.debug("a write failed after its caller was cancelled", task=task.get_name(), reason=str(error))
    elif error is not None:
        _log.error("a write failed after its caller was cancelled", task=task.get_name(), exc_info=error)


@asynccontextmanager
async def open_pool(
    settings: DatabaseSettings, *, epoch: Epoch | None, leads: Callable[[], bool] = lambda: False
) -> AsyncIterator[Pool]:
    """Open the pool of one instance, fenced by its epoch; None for tests and tools, which do not lead.

    While `leads` returns True, it connects only to the server that has the leader's connection.
    """
    with translated():
        inner = await asyncpg.create_pool(
            settings.url,
            # A few at the start, but no minimum: asyncpg would restore it in a task of its own, and log a
            # traceback at each attempt while the database is unavailable.
            min_size=0,
            init_size=min(2, settings.pool_size),
            max_size=settings.pool_size + SPARE_CONNECTIONS,
            max_queries=_NO_LIMIT,
            max_inactive_connection_lifetime=0,
            timeout=CONNECT_TIMEOUT_SECONDS,
            command_timeout=settings.command_timeout_seconds,
            server_settings=SERVER_SETTINGS,
            connect=cast(Any, open_connection),  # the stubs expect the parameters of asyncpg.connect
            connection_class=PooledConnection,
            init=partial(prepare, epoch=epoch, leads=leads, max_seconds=settings.max_connection_seconds),
            reset=keep_session,
        )
    pool = Pool(inner, settings)
    try:
        yield pool
    finally:
        await _close(pool, inner)


async def _close(pool: Pool, inner: "asyncpg.Pool[asyncpg.Record]") -> None:
    try:
        async with asyncio.timeout(CLOSE_TIMEOUT_SECONDS):
            await pool.finish_writes()
            await pool.release_all()
            await inner.close()
    except TimeoutError:
        _log.warning("connections were still in use when the pool closed", size=pool.size())
        inner.terminate()
