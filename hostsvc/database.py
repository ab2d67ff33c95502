"""The configured database: how it is opened and waited for, and the cipher for the secrets in it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime

import structlog

from hostsvc.config import Config, DatabaseChoice
from hostsvc.embedded_postgres import CLUSTER, embedded_postgres
from hostsvc.process_end import EndRequest
from storage.encryption import SecretCipher, parse_key
from storage.errors import DatabaseRefused, DatabaseUnavailable
from storage.identity.instance import EncryptionKeys, Instance, stored_operator_token
from storage.postgres.connections import READABLE, connect
from storage.postgres.migrations import check, list_pending, read_migrations, refuse_unsafe
from storage.postgres.pool import Connection, Pool, open_pool
from storage.postgres.translation import NO_ANSWER
from supervisors.clock import Clock, SystemClock, wait_for_event

PAUSE_SECONDS = 0.5  # between two attempts
ATTEMPT_SECONDS = 3.0  # an attempt without an answer for longer has failed
REPEAT_SECONDS = 60.0  # between two lines in the log

log = structlog.get_logger()

NEW_KEY = 'python3 -c "import secrets; print(secrets.token_urlsafe(32))"'
IN_CLEAR = (
    "secrets are stored in clear; to encrypt them, set accounts.encryption_keys to a key made by "
    f"`{NEW_KEY}`, then run `hostsvc rotate-keys`"
)
NOT_ROTATED = (
    "secrets from before the first of accounts.encryption_keys are not encrypted with it yet; "
    "run `hostsvc rotate-keys`"
)
NO_DATABASE = (
    "there is no database in {} (database.data_dir), and database.url is blank: give the --config and the "
    "CREDENTIALS_DIRECTORY of the service, or create one with hostsvc migrate"
)

EMPTY = (
    "the database is empty: correct database.url if that is wrong, else set it up with hostsvc migrate, "
    "hostsvc init or hostsvc serve"
)


@asynccontextmanager
async def open_database(config: Config, *, may_create: bool = False) -> AsyncIterator[str]:
    """Yield the URL of the database. The embedded one runs at least until the block ends.

    Only serve, init, migrate and restore may create it and its schema. All other commands open it without
    `may_create`, and by `open_current_pool` if they need a schema, so they change neither.

    Raise DatabaseRefused if its settings are unsafe, or if there is no embedded one and none may be created.
    """
    data_dir = config.database.data_dir.expanduser().absolute()
    if not (config.database.url or may_create or (data_dir / CLUSTER).exists()):
        raise DatabaseRefused(NO_DATABASE.format(data_dir))
    async with AsyncExitStack() as stack:
        url = config.database.url or await stack.enter_async_context(
            embedded_postgres(config.database.data_dir, SystemClock())
        )
        await refuse_unsafe(url)
        yield url


@asynccontextmanager
async def open_current_database(config: Config) -> AsyncIterator[Pool]:
    """Yield a pool on the database. Raise DatabaseRefused if it is empty, or its schema an older one."""
    async with open_database(config) as url, open_current_pool(config, url) as pool:
        yield pool


@asynccontextmanager
async def open_current_pool(config: Config, url: str) -> AsyncIterator[Pool]:
    """Yield a pool on the open database at `url`, like `open_current_database`."""
    if pending := await check(url):
        is_empty = len(pending) == len(read_migrations())
        raise DatabaseRefused(
            EMPTY if is_empty else "the database has an older schema: run hostsvc migrate first"
        )
    async with open_pool(config.database.pool_settings(url), node=None) as pool:
        yield pool


async def operator_token(config: Config) -> str:
    """Return the configured operator token, or else the stored one, which is created if missing."""
    if token := config.operator.token or await _stored_token(config):
        return token
    async with open_current_database(config) as pool:
        cipher = await open_cipher(config.accounts.encryption_keys, pool)
        return await Instance(pool, cipher).operator_token()


async def _stored_token(config: Config) -> str | None:
    """Return the operator token of a configured database, which need not take writes; None without one."""
    if not config.database.url:
        return None
    async with connect(config.database.url, READABLE) as connection:
        if await list_pending(connection):
            return None
        cipher = await open_cipher(config.accounts.encryption_keys, connection)
        return await stored_operator_token(connection, cipher)


async def wait_for_database(database: DatabaseChoice, seconds: float, end: EndRequest, clock: Clock) -> bool:
    """Wait until the database takes connections; return False if the end of the process is requested first.

    Raise DatabaseUnavailable with the reason after this many seconds.
    """
    began_at = next_line_at = clock.monotonic()
    while reason := await _failure(database.url):
        now = clock.monotonic()
        if now >= began_at + seconds:
            raise DatabaseUnavailable(f"{reason}, after a wait of {seconds:g} s")
        if now >= next_line_at:
            log.warning(
                "waiting for the database",
                database=database.name,
                reason=reason,
                waited_seconds=round(now - began_at),
                max_seconds=seconds,
            )
            next_line_at += REPEAT_SECONDS
        if await wait_for_event(end.requested, min(PAUSE_SECONDS, began_at + seconds - now), clock):
            return False
    return True


async def _failure(url: str) -> str:
    """Try to connect, and return why that failed; blank if it succeeded."""
    try:
        async with asyncio.timeout(ATTEMPT_SECONDS), connect(url):
            return ""
    except DatabaseUnavailable as error:
        return str(error)
    except TimeoutError:
        return NO_ANSWER


async def open_cipher(keys: Sequence[str], database: "Pool | Connection") -> SecretCipher:
    """Return the cipher for this database.

    Raise DatabaseRefused if something may be stored under a key that is not configured.
    """
    cipher = SecretCipher([parse_key(key) for key in keys])
    await EncryptionKeys(database).require_known(cipher.key_ids)
    return cipher


async def require_keys(keys: Sequence[str], url: str) -> None:
    """Raise DatabaseRefused like `open_cipher`, before the process joins as a node."""
    async with connect(url) as connection:
        await open_cipher(keys, connection)


async def open_cipher_of_service(keys: Sequence[str], pool: Pool, now: datetime) -> SecretCipher:
    """Return the cipher for this database, and record that the service encrypts with its first key."""
    cipher = await open_cipher(keys, pool)
    if cipher.key_ids:
        await EncryptionKeys(pool).insert(cipher.key_ids[0], now)
    return cipher


async def encryption_notice(cipher: SecretCipher, pool: Pool) -> str:
    """Return a line for the operator if secrets are, or may be, stored in clear or under another key."""
    if not cipher.key_ids:
        return IN_CLEAR
    return "" if await EncryptionKeys(pool).is_rotated(cipher.key_ids[0]) else NOT_ROTATED
