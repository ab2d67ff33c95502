"""The way to PostgreSQL: pooled connections with a limit on every wait, and asyncpg's errors in our words."""

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
from storage.postgres.constraints import meaning

Connection: TypeAlias = (
    "asyncpg.Connection[asyncpg.Record] | asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"
)
Lent: TypeAlias = "asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"
Result = TypeVar("Result")

# The origin keeps the triggers for foreign writers quiet. Given at connect, because a later SET would
# not survive a reset. Compiling small statements costs more than it saves, hence no jit. What is asked for is
# in memory most of the time, hence the cost: finding some rows by their ids is cheaper than reading all.
SERVER_SETTINGS = {
    "hostsvc.origin": "service",
    "application_name": "hostsvc",
    "timezone": "UTC",
    "jit": "off",
    "random_page_cost": "1.1",
}

LIMIT_WAIT = "SET LOCAL lock_timeout = '1s'"  # of a transaction that locks rows others may hold for long
BRIEF_WAIT = "SET LOCAL lock_timeout = '50ms'"  # longer than a write of ours holds a row
SHARE_THAT_WAITS = 4  # of the connections, one in so many waits for rows that are held for longer

CONNECT_TIMEOUT_SECONDS = 10.0
CLOSE_TIMEOUT_SECONDS = 10.0
_NO_LIMIT = 2**62  # queries until asyncpg replaces a connection; there is no reason to

_AWAY = (
    OSError,  # TimeoutError among them
    asyncpg.PostgresConnectionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.OperatorInterventionError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.ReadOnlySQLTransactionError,
)
_UNFIT = (
    asyncpg.ProtocolViolationError,  # what a proxy says that knows only some server settings
    asyncpg.InsufficientPrivilegeError,
)
_GOODBYE = (
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.InternalClientError,  # after a goodbye that came while the connection was idle
)

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """Where the database is and how long to wait for it. The URL may hold a password."""

    url: str = field(repr=False)
    pool_size: int = 10
    acquire_timeout_seconds: float = 5.0
    command_timeout_seconds: float = 30.0

    def __post_init__(self) -> None:
        if not self.url:
            raise ValueError("url must not be blank")
        if self.pool_size < 1:
            raise ValueError("pool_size must be at least 1")
        if self.acquire_timeout_seconds <= 0 or self.command_timeout_seconds <= 0:
            raise ValueError("timeouts must be above 0")


@dataclass(frozen=True, slots=True)
class PoolSize:
    """How many connections there are, how many of them are idle, and how many callers wait for one."""

    connections: int
    idle: int
    waiting: int


@contextmanager
def _translated() -> Iterator[None]:
    """Turn asyncpg's errors into `storage.errors`, but for those that only a defect of ours can cause."""
    try:
        yield
    except (asyncpg.UniqueViolationError, asyncpg.ForeignKeyViolationError) as error:
        known = meaning(error.constraint_name or "")
        if known is None:
            raise
        raise known from error
    except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError) as error:
        raise RowLocked(str(error)) from error
    except _UNFIT as error:
        raise DatabaseRefused(f"the database cannot be used: {error}") from error
    except _AWAY as error:
        reason = "no answer in time" if isinstance(error, TimeoutError) else error
        raise DatabaseUnavailable(f"the database cannot be reached: {reason}") from error


@contextmanager
def _dead_is_away(connection: Connection) -> Iterator[None]:
    """Tell the use of a dead connection from wrong use of a live one: asyncpg has one word for both."""
    try:
        yield
    except asyncpg.InterfaceError as error:
        if _is_dead(connection):
            raise DatabaseUnavailable(f"the connection to the database is gone: {error}") from error
        raise
    except _GOODBYE as error:
        # The end of the stream has not been read yet; nobody else shall be given this connection.
        if not _is_dead(connection):
            connection.terminate()
        raise DatabaseUnavailable(f"the connection to the database is going: {error}") from error


def _is_dead(connection: Connection) -> bool:
    try:
        return connection.is_closed()
    except asyncpg.InterfaceError:
        return True  # the pool has taken it back from its user, which it does when it closes


@contextmanager
def _url_understood() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise DatabaseRefused(f"the database URL cannot be used: {error}") from error


@asynccontextmanager
async def connect(url: str, **settings: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    """A connection outside the pool, with further server settings and without a limit on its commands."""
    with _translated():
        with _url_understood():
            connection = await asyncpg.connect(
                url, timeout=CONNECT_TIMEOUT_SECONDS, server_settings=SERVER_SETTINGS | settings
            )
        try:
            with _dead_is_away(connection):
                yield connection
        finally:
            connection.terminate()  # at once: whoever leaves early does not want the answer any more


class Pool:
    """The connections of one instance.

    A single statement is one call of `fetch`, `fetchrow`, `fetchval` or `execute`; several that belong
    together stand in a `transaction`. A caller that is cancelled in the middle of a write cannot know whether
    it was committed; a write that must reach its end, and tell somebody, goes through `run_to_completion`.

    asyncpg's pool makes the connections. It lends each one out by way of tasks, which are trips through the
    event loop and most of what a short statement takes; so one that came back in order stays here for the
    next.
    """

    def __init__(self, inner: "asyncpg.Pool[asyncpg.Record]", settings: DatabaseSettings) -> None:
        self._inner = inner
        self._settings = settings
        self._free = asyncio.Semaphore(settings.pool_size)
        self._patience = asyncio.Semaphore(max(1, settings.pool_size // SHARE_THAT_WAITS))
        self._idle: list[Lent] = []
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
        """A connection inside BEGIN … COMMIT; rolled back when the body raises or is cancelled."""
        async with self._connection() as connection, connection.transaction():
            yield connection

    async def run_to_completion(self, write: Coroutine[Any, Any, Result], name: str) -> Result:
        """Run `write` to its end whether or not its caller is cancelled meanwhile; `name` is its task's."""
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
        """Wait for the writes whose callers have gone."""
        while self._writes:
            await asyncio.wait(self._writes)

    async def let_go(self) -> None:
        """Give all connections back to asyncpg's pool: those in use when they come back."""
        self._is_closing = True
        while self._idle:
            await self._inner.release(self._idle.pop())

    async def with_lock_retry(self, write: Callable[[Connection], Awaitable[Result]]) -> Result:
        """Let `write` work in a transaction that waits for rows somebody else holds; RowLocked in the end.

        Beyond a moment only a few wait at a time, a second each, and the others for their turn, without a
        connection: whoever holds many rows for long keeps nobody from the rest. `write` may be called twice.
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
        """A transaction that begins with the lock that `sql` takes, for which it waits as patiently."""
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
                await self._patience.acquire()
        except TimeoutError:
            raise RowLocked("too many wait for rows that somebody else holds") from None
        try:
            yield
        finally:
            self._patience.release()

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator["Lent"]:
        with _translated():
            await self._wait_for_turn()
            try:
                connection = await self._take()
                try:
                    with _dead_is_away(connection):
                        yield connection
                except BaseException:
                    # Its statement may still be going on: asyncpg sees to it that nobody else meets that.
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
            await self._free.acquire()  # at once
            return
        self._waiting += 1
        try:
            async with asyncio.timeout(self._settings.acquire_timeout_seconds):
                await self._free.acquire()
        finally:
            self._waiting -= 1

    async def _take(self) -> "Lent":
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
            "a write failed after its caller had gone", task=task.get_name(), exc_info=task.exception()
        )


@asynccontextmanager
async def open_pool(settings: DatabaseSettings, *, epoch: int | None) -> AsyncIterator[Pool]:
    """The pool of one instance, fenced by its epoch; `None` for tests and tools, which do not lead."""
    with _translated(), _url_understood():
        inner = await asyncpg.create_pool(
            settings.url,
            # Some at the start, but no floor: asyncpg would restore it in a task of its own, and log a
            # traceback at each attempt while the database is away.
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
            await pool.let_go()
            await inner.close()
    except TimeoutError:
        _log.warning("connections were still in use when the pool closed", size=pool.size())
        inner.terminate()


async def _keep_session(_: Any) -> None:
    """Stands for asyncpg's reset between two users of a connection.

    That would give up all advisory locks, the fence of the epoch among them, and cost a round trip. Nothing
    of ours changes the session; a transaction left open asyncpg has rolled back before it calls this.
    """


TAKE_MEMBERSHIP = "SELECT pg_advisory_lock_shared($1, $2)"
SELECT_EPOCH = "SELECT epoch FROM instance"


async def _prepare(connection: Connection, *, epoch: int | None) -> None:
    await connection.set_type_codec(
        "json", schema="pg_catalog", encoder=to_json, decoder=orjson.loads, format="binary"
    )
    if epoch is None:
        return
    # In this order: whoever reads its own epoch after it took the lock is seen by the next leader, who bumps
    # the epoch before it looks for holders of the lock.
    with _dead_is_away(connection):
        await connection.execute(TAKE_MEMBERSHIP, MEMBER, epoch)
        current = await connection.fetchval(SELECT_EPOCH)
    if current != epoch:
        raise LeadershipLost(f"another instance leads: the epoch is {current}, ours was {epoch}")


def to_json(value: Any) -> bytes:
    """As a json value is written."""
    return orjson.dumps(value, default=_plain)


def _plain(value: Any) -> str:
    """asyncpg's UUIDs are of a subclass, which orjson does not take."""
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")
