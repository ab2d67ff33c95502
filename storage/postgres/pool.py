"""Connections to PostgreSQL: a pool with a limit on every wait, and storage errors instead of asyncpg's."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

import asyncpg
import asyncpg.pool
import orjson
import structlog

from storage.errors import DatabaseRefused, DatabaseUnavailable, LeadershipLost, RowLocked
from storage.postgres.advisory_locks import MEMBER
from storage.postgres.constraints import constraint_error

Connection: TypeAlias = (
    "asyncpg.Connection[asyncpg.Record] | asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"
)
LentConnection: TypeAlias = "asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"
Result = TypeVar("Result")

# The origin switches off the triggers for other programs; it is set at connect because a later SET would not
# survive a reset. Compiling small statements costs more than it saves, hence no jit. The pages read are in
# memory most of the time, hence the low cost: some rows by their ids must be cheaper than a whole table.
SERVER_SETTINGS = {
    "hostsvc.origin": "service",
    "application_name": "hostsvc",
    "timezone": "UTC",
    "jit": "off",
    "random_page_cost": "1.1",
}

LIMIT_WAIT = "SET LOCAL lock_timeout = '1s'"  # for rows that another transaction may hold for long
BRIEF_WAIT = "SET LOCAL lock_timeout = '50ms'"  # longer than a write of the service holds a row
CONNECTIONS_PER_WAITER = 4  # one connection in four may wait longer than that for a row

CONNECT_TIMEOUT_SECONDS = 10.0
CLOSE_TIMEOUT_SECONDS = 10.0
_NO_LIMIT = 2**62  # queries until asyncpg replaces a connection, for which there is no reason

_UNAVAILABLE = (
    OSError,  # TimeoutError among them
    asyncpg.PostgresConnectionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.OperatorInterventionError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.ReadOnlySQLTransactionError,
)
_UNUSABLE = (
    asyncpg.ProtocolViolationError,  # the answer of a proxy that allows only some server settings
    asyncpg.InsufficientPrivilegeError,
)
_SERVER_CLOSING = (
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.InternalClientError,  # raised if the server closed the connection while it was idle
)

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
    """The numbers of connections, of idle ones among them, and of callers that wait for one."""

    connections: int
    idle: int
    waiting: int


@contextmanager
def _translated() -> Iterator[None]:
    """Turn asyncpg's errors into `storage.errors`, except those that only a bug of ours can cause."""
    try:
        yield
    except asyncpg.IntegrityConstraintViolationError as error:
        error.detail = None  # it quotes the row, with its secrets, and may be logged
        if known_error := constraint_error(error.constraint_name or ""):
            raise known_error from error
        raise
    except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError) as error:
        raise RowLocked(str(error)) from error
    except _UNUSABLE as error:
        raise DatabaseRefused(f"the database cannot be used: {error}") from error
    except _UNAVAILABLE as error:
        reason = "no answer in time" if isinstance(error, TimeoutError) else error
        raise DatabaseUnavailable(f"the database cannot be reached: {reason}") from error


@contextmanager
def _check_liveness(connection: Connection) -> Iterator[None]:
    """Raise DatabaseUnavailable if the connection died. asyncpg raises InterfaceError for misuse, too."""
    try:
        yield
    except asyncpg.InterfaceError as error:
        if _is_dead(connection):
            raise DatabaseUnavailable(f"the connection to the database is lost: {error}") from error
        raise
    except _SERVER_CLOSING as error:
        # The end of the stream has not been read yet, so the pool would still lend this connection.
        if not _is_dead(connection):
            connection.terminate()
        raise DatabaseUnavailable(f"the server is closing the connection: {error}") from error


def _is_dead(connection: Connection) -> bool:
    try:
        return connection.is_closed()
    except asyncpg.InterfaceError:
        return True  # the pool took it back from its user while closing


@contextmanager
def _check_url() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise DatabaseRefused(f"the database URL cannot be used: {error}") from error


@asynccontextmanager
async def connect(url: str, **settings: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    """Yield a connection outside the pool, with further server settings and without a command timeout."""
    with _translated():
        with _check_url():
            connection = await asyncpg.connect(
                url, timeout=CONNECT_TIMEOUT_SECONDS, server_settings=SERVER_SETTINGS | settings
            )
        try:
            with _check_liveness(connection):
                yield connection
        finally:
            connection.terminate()  # at once: after an early exit nobody needs the answer


class Pool:
    """The connections of one instance.

    Use `fetch`, `fetchrow`, `fetchval` or `execute` for one statement, `transaction` for several, and
    `run_to_completion` for a write whose result must be known even if its caller is cancelled.

    asyncpg's pool makes the connections. It lends each one through tasks, which would take most of the time
    of a short statement, so a connection that was returned in order stays here for the next caller.
    """

    def __init__(self, inner: "asyncpg.Pool[asyncpg.Record]", settings: DatabaseSettings) -> None:
        self._inner = inner
        self._settings = settings
        self._free = asyncio.Semaphore(settings.pool_size)
        self._waiters = asyncio.Semaphore(max(1, settings.pool_size // CONNECTIONS_PER_WAITER))
        self._idle: list[LentConnection] = []
        self._is_closing = False
        self._waiting = 0
        self._writes: set[asyncio.Task[Any]] = set()

    def __repr__(self) -> str:
        return f"<Pool {self.size()}>"

    async def fetch(self, sql: str, *args: Any) -> list[asyncpg.Record]:
        async with self._connection() as connection:
            return await connection.fetch(sql, *args)

    async def fetchrow(self, sql: str, *args: Any) -> asyncpg.Record | None:
        async with self._connection() as connection:
            return await connection.fetchrow(sql, *args)

    async def fetchval(self, sql: str, *args: Any) -> Any:
        async with self._connection() as connection:
            return await connection.fetchval(sql, *args)

    async def execute(self, sql: str, *args: Any) -> str:
        async with self._connection() as connection:
            return await connection.execute(sql, *args)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """Yield a connection inside BEGIN … COMMIT; roll back if the body raises or is cancelled."""
        async with self._connection() as connection, connection.transaction():
            yield connection

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
        with suppress(RowLocked):
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
    async def _connection(self) -> AsyncIterator[LentConnection]:
        with _translated():
            await self._wait_for_turn()
            try:
                connection = await self._take()
                try:
                    with _check_liveness(connection):
                        yield connection
                except BaseException:
                    # Its statement may still be running; asyncpg waits for that before it lends it again.
                    await self._inner.release(connection)
                    raise
                if self._is_closing:
                    await self._inner.release(connection)
                else:
                    self._idle.append(connection)
            finally:
                self._free.release()

    async def _wait_for_turn(self) -> None:
        if not self._free.locked():
            await self._free.acquire()  # does not wait
            return
        self._waiting += 1
        try:
            async with asyncio.timeout(self._settings.acquire_timeout_seconds):
                await self._free.acquire()
        finally:
            self._waiting -= 1

    async def _take(self) -> LentConnection:
        while self._idle:
            connection = self._idle.pop()
            if not _is_dead(connection):
                return connection
            await self._inner.release(connection)
        try:
            return await self._inner.acquire(timeout=self._settings.acquire_timeout_seconds)
        except asyncpg.InterfaceError as error:
            raise DatabaseUnavailable(str(error)) from error  # closing, or the new connection died at once


def _log_failure(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and task.exception() is not None:
        _log.error(
            "a write failed after its caller was cancelled", task=task.get_name(), exc_info=task.exception()
        )


@asynccontextmanager
async def open_pool(settings: DatabaseSettings, *, epoch: int | None) -> AsyncIterator[Pool]:
    """Open the pool of one instance, fenced by its epoch; None for tests and tools, which do not lead."""
    with _translated(), _check_url():
        inner = await asyncpg.create_pool(
            settings.url,
            # A few at the start, but no minimum: asyncpg would restore it in a task of its own, and log a
            # traceback at each attempt while the database is unavailable.
            min_size=0,
            init_size=min(2, settings.pool_size),
            max_size=settings.pool_size,
            max_queries=_NO_LIMIT,
            max_inactive_connection_lifetime=0,
            timeout=CONNECT_TIMEOUT_SECONDS,
            command_timeout=settings.command_timeout_seconds,
            server_settings=SERVER_SETTINGS,
            init=partial(_prepare, epoch=epoch),
            reset=_keep_session,
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


async def _keep_session(_: Any) -> None:
    """Replace asyncpg's reset between two users of a connection.

    The reset would release all advisory locks, the fence of the epoch among them, and cost a round trip. The
    service changes no session settings, and asyncpg rolls back an open transaction before it calls this.
    """


TAKE_MEMBERSHIP = "SELECT pg_advisory_lock_shared($1, $2)"
SELECT_EPOCH = "SELECT epoch FROM instance"


async def _prepare(connection: Connection, *, epoch: int | None) -> None:
    await connection.set_type_codec(
        "json", schema="pg_catalog", encoder=to_json, decoder=orjson.loads, format="binary"
    )
    if epoch is None:
        return
    # The order matters: the next leader increments the epoch before it looks for holders of the lock, so it
    # finds every connection that still reads its own epoch after taking the lock.
    with _check_liveness(connection):
        await connection.execute(TAKE_MEMBERSHIP, MEMBER, epoch)
        current = await connection.fetchval(SELECT_EPOCH)
    if current != epoch:
        raise LeadershipLost(f"another instance leads: the epoch is {current}, ours was {epoch}")


def to_json(value: Any) -> bytes:
    """Return the JSON text of a value. asyncpg's UUIDs are of a subclass that orjson itself refuses."""
    return orjson.dumps(value, default=_plain)


def _plain(value: Any) -> str:
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")
