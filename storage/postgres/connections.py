"""Connections to PostgreSQL that can write, and storage errors instead of asyncpg's.

The URL may name several hosts. They are tried in its order, each with a limit of its own, so that one that
does not answer leaves time for the next. asyncpg and libpq would both give a single limit to all of them.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, NoReturn, Protocol, TypeAlias, TypeVar
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit
from uuid import UUID

import asyncpg
import asyncpg.pool
from asyncpg.connect_utils import SessionAttribute

from storage.errors import (
    DatabaseRefused,
    DatabaseUnavailable,
    NodeEnded,
)
from storage.postgres.json_values import from_json, to_json
from storage.postgres.translation import CLOSED, storage_error, translated

_SERVICE = 0x68737663  # "hsvc": keeps our locks apart from those of other programs in the same database

LEADER = (_SERVICE, 1)  # shared by the nodes, so that no instance of 0.2.0 or older can lead beside them
MIGRATION = (_SERVICE, 2)  # held while migrations are applied
PARENTS = (_SERVICE, 3)  # held while an agent's parent changes

# With the number of a node as the second integer. The connection of its beat holds NODE, those of its pool
# share MEMBER. That is never taken exclusively: a waiting exclusive lock would block every new connection.
NODE = _SERVICE + 2
MEMBER = _SERVICE + 3
STARTS = _SERVICE + 4  # with the hash of an organization: held while its runs are counted for a start
OLD_MEMBER = _SERVICE + 1  # of instances up to 0.2.0, with their epoch


Connection: TypeAlias = (
    "asyncpg.Connection[asyncpg.Record] | asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"
)
Opened = TypeVar("Opened")

# The origin switches off the triggers for other programs; it is set at connect because a later SET would not
# survive a reset. Compiling small statements costs more than it saves, hence no jit. The pages read are in
# memory most of the time, hence the low cost: some rows by their ids must be cheaper than a whole table. A
# float that is written as text must be the one that is stored, hence its digits. A statement whose connection
# was dropped must end soon, hence the check. A node that is frozen in a transaction must not hold its locks
# until it is found dead: no transaction waits for anything but its own statements.
#
# With the last four, which have no effect on a Unix socket, the server notices within 5 s that a node's host
# has vanished. By then that host has lost its connection, too: a beat waits 3 s for its answer.
SERVER_SETTINGS = {
    "hostsvc.origin": "service",
    "application_name": "hostsvc",
    "timezone": "UTC",
    "jit": "off",
    "random_page_cost": "1.1",
    "extra_float_digits": "1",
    "client_connection_check_interval": "500ms",
    "idle_in_transaction_session_timeout": "5s",
    "tcp_keepalives_idle": "1",
    "tcp_keepalives_interval": "1",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "4000",
}

READABLE = SessionAttribute.any
WRITABLE = (
    SessionAttribute.read_write
)  # refuses a standby, and a server whose administrator has forbidden writes
CONNECT_TIMEOUT_SECONDS = 10.0
GOODBYE_SECONDS = 0.5  # for the server to close a connection that has expired
HOST_TIMEOUT_SECONDS = 2.0  # for each of several hosts: a request waits while they are tried

# After these the session is of no further use: the server has closed it, though the end of the stream may not
# have been read yet, or it would refuse each later write as well.
_LOST = (
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.InternalClientError,
    asyncpg.ReadOnlySQLTransactionError,
)


def reraise(error: Exception, connection: Connection) -> NoReturn:
    """Raise the error of storage for that of a statement. Close the connection if it is of no further use."""
    if isinstance(error, _LOST) and not is_dead(connection):
        connection.terminate()
    known = storage_error(error)
    if isinstance(error, asyncpg.InterfaceError) and is_dead(connection):  # it is raised for misuse, too
        known = DatabaseUnavailable(CLOSED)
    if known is None or known is error:
        raise error
    raise known from error


def is_dead(connection: Connection) -> bool:
    """Return whether the connection is closed."""
    try:
        return connection.is_closed()
    except asyncpg.InterfaceError:
        return True  # the pool took it back from its user while closing


def drop(connection: Connection) -> None:
    """Close the connection at once, without telling the server."""
    with suppress(asyncpg.InterfaceError):  # it has died, and its pool has noticed
        connection.terminate()


class PooledConnection(asyncpg.Connection):
    """A connection of a pool, which asyncpg closes when it has expired, also where nobody waits for that."""

    __slots__ = ()

    async def close(self, *, timeout: float | None = None) -> None:
        """Take leave of the server, but not for long: a failure must not hide what the last caller did."""
        with suppress(Exception):
            await super().close(timeout=GOODBYE_SECONDS)


def host_urls(url: str) -> tuple[str, ...]:
    """Return the URL once for each of its hosts, which stand before the path or in the query `host`.

    Raise ValueError if it cannot be parsed.
    """
    parts = urlsplit(url)
    user, at, hosts = parts.netloc.rpartition("@")
    if "," in hosts:
        return tuple(_unsplit(parts, f"{user}{at}{host}", parts.query) for host in hosts.split(","))
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    if "," not in query.get("host", "") or "hostaddr" in query:
        return (url,)
    names, ports = query["host"].split(","), query.get("port", "").split(",")
    if len(ports) == 1:
        ports *= len(names)
    chosen = (query | {"host": name, "port": port} for name, port in zip(names, ports, strict=True))
    queries = ({name: value for name, value in each.items() if value} for each in chosen)
    return tuple(_unsplit(parts, parts.netloc, urlencode(each, quote_via=quote)) for each in queries)


def _unsplit(parts: SplitResult, netloc: str, query: str) -> str:
    """Join the parts. `urlunsplit` would leave out the slashes before an empty host."""
    return f"{parts.scheme}://{netloc}{parts.path}{'?' if query else ''}{query}"


def host_of(url: str) -> str:
    """Return the host in a URL of `host_urls`, with its port, for messages."""
    parts = urlsplit(url)
    return parts.netloc.rpartition("@")[2] or dict(parse_qsl(parts.query)).get("host", "") or "localhost"


async def connect_to_first_host(url: str, connect: Callable[[str], Awaitable[Opened]]) -> Opened:
    """Return the connection that `connect` makes to the first host of the URL that takes writes.

    `connect` gets the URL with this host alone, and raises DatabaseUnavailable.
    """
    try:
        urls = host_urls(url)
    except ValueError as error:
        raise DatabaseRefused(f"the database URL cannot be used: {error}") from error
    failures = []
    for host_url in urls:
        try:
            with translated(host_of(host_url)):
                async with asyncio.timeout(HOST_TIMEOUT_SECONDS if urls[1:] else CONNECT_TIMEOUT_SECONDS):
                    return await connect(host_url)
        except DatabaseUnavailable as error:
            if len(urls) == 1:
                raise
            failures.append(f"{host_of(host_url)}: {error}")
    raise DatabaseUnavailable(f"no host of the database takes writes: {'; '.join(failures)}")


async def open_connection(url: str, target: SessionAttribute = WRITABLE, **options: Any) -> Any:
    """Return an asyncpg connection to the first host of the URL that takes writes, or is a `target`."""

    async def connect(host_url: str) -> Any:
        try:
            return await asyncpg.connect(host_url, target_session_attrs=target, **options)
        except ValueError as error:
            raise DatabaseRefused(f"the database URL cannot be used: {error}") from error

    return await connect_to_first_host(url, connect)


@asynccontextmanager
async def connect(
    url: str, target: SessionAttribute = WRITABLE
) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    """Yield a connection outside the pool, without a command timeout."""
    with translated():
        connection = await open_connection(url, target, server_settings=SERVER_SETTINGS)
    try:
        yield connection
    except Exception as error:
        reraise(error, connection)
    finally:
        connection.terminate()  # at once: after an early exit nobody needs the answer


class Fence(Protocol):
    """The node of a pool. `backend` is the server's process that serves its beat, None while none does."""

    @property
    def node_id(self) -> int: ...
    @property
    def life(self) -> UUID: ...
    @property
    def backend(self) -> int | None: ...


TAKE_MEMBERSHIP = "SELECT pg_advisory_lock_shared($1, $2)"
SELECT_NODE = """
    SELECT EXISTS (
        SELECT FROM node WHERE id = $1 AND life = $2 AND state IN ('alive', 'leaving')
    ) AS is_living, EXISTS (
        SELECT FROM pg_locks
        WHERE locktype = 'advisory' AND granted AND classid = $3 AND objid = $1::integer::oid AND objsubid = 2
            AND pid = $4 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    ) AS is_beating
"""


async def prepare(connection: Any, *, node: Fence | None) -> None:
    """Make a new connection of a pool ready: its JSON values, and the fence of its node."""
    await connection.set_type_codec(
        "json", schema="pg_catalog", encoder=to_json, decoder=from_json, format="binary"
    )
    if node is None:
        return
    # The order matters: a node is condemned before the holders of its locks are read, so each connection that
    # still finds it living after taking its lock is terminated.
    try:
        await connection.execute(TAKE_MEMBERSHIP, MEMBER, node.node_id)
        backend = node.backend
        row = await connection.fetchrow(SELECT_NODE, node.node_id, node.life, NODE, backend)
    except Exception as error:
        reraise(error, connection)
    # A former primary that takes writes again may know the node, but its beat goes to another server.
    if backend is not None and not row["is_beating"]:
        raise DatabaseUnavailable("the server is not the one on which this node beats")
    if not row["is_living"]:
        raise NodeEnded(f"node {node.node_id} was found dead, or is not known to this server")
