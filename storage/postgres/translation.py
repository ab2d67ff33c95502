"""Storage errors instead of those of asyncpg, libpq and the operating system.

They report the same failure in different words, some of which name classes and descriptors. Their own words
remain for failures that are not known here, such as a wrong password.
"""

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import asyncpg

from storage.errors import (
    AnsweredBefore,
    ConstraintError,
    DatabaseFull,
    DatabaseReadOnly,
    DatabaseRefused,
    DatabaseUnavailable,
    NoAnswer,
    NotUnique,
    ReferenceMissing,
    RowLocked,
    SchemaChanged,
    StorageError,
)

_READ_ONLY = (
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.TargetServerAttributeNotMatched,
)
_UNAVAILABLE = (
    OSError,  # TimeoutError among them
    asyncpg.PostgresConnectionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.OperatorInterventionError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.IdleInTransactionSessionTimeoutError,  # this process stood still in a transaction
    asyncpg.InternalClientError,  # the server closed the connection while it was idle
    asyncpg.PostgresSystemError,  # the server cannot read or write its files
)
_UNUSABLE = (
    asyncpg.ProtocolViolationError,  # the answer of a proxy that allows only some server settings
    asyncpg.InsufficientPrivilegeError,
)
NO_ANSWER = "the server does not answer"
CLOSED = "the server closed the connection"
READ_ONLY = "the server is a standby or allows reads only"

# The beginning is enough: the words that follow differ between versions.
_PHRASES = (
    ("the database system is shutting down", "the server is shutting down"),
    ("the database system is starting up", "the server is starting up"),
    ("the database system is not yet accepting connections", "the server is starting up"),
    ("the database system is in recovery mode", "the server is recovering from a crash"),
    (
        "terminating connection due to administrator command",
        "the server is shutting down, or an administrator ended the connection",
    ),
    ("because of crash of another server process", "a process of the server has crashed"),
    ("session is read-only", READ_ONLY),
    ("no such file or directory", "there is no server at {address}"),
    ("connection refused", "connection refused by {address}"),
    ("connect call failed", "connection refused by {address}"),  # asyncio, if all addresses of a name refuse
    ("no route to host", "there is no route to {address}"),
    ("network is unreachable", "the network of {address} cannot be reached"),
    ("connection reset", CLOSED),
    ("connection closed", CLOSED),
    ("connection is closed", CLOSED),
    ("connection was closed", CLOSED),
    ("connection has been released", CLOSED),
    ("closed the connection", CLOSED),
    ("cannot switch to state", CLOSED),  # asyncpg, if the connection was closed during a statement
    ("connection_lost", CLOSED),  # asyncpg, if it was closed while it was opened
    ("broken pipe", CLOSED),
)


def failure_reason(error: BaseException, address: str = "the server") -> str:
    """Return why the database cannot be used, as a clause without a period and without secrets."""
    match error:
        case TimeoutError():
            return NO_ANSWER
        case asyncpg.TargetServerAttributeNotMatched():
            return READ_ONLY
        case socket.gaierror():
            return f"the host name of {address} cannot be resolved"
    words = str(error)
    for phrase, reason in _PHRASES:
        if phrase in words.lower():
            return reason.format(address=address)
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return words.partition("\n")[0].removeprefix("FATAL:").strip() or CLOSED


# Tables in which an id may be taken already.
_WITH_ID = """
    user_account invite api_key template secret agent webhook webhook_secret adapter tool adapter_config
    hook notification notification_payload schedule contact message attachment document project run trace
    span span_metadata parked_call approval_grant
"""
_UNIQUE = {f"{table}_pkey": ("id",) for table in _WITH_ID.split()} | {
    "user_account_email_unique": ("email",),
    "membership_unique": ("user", "organization"),
    "api_key_prefix_unique": ("prefix",),
    "secret_name_unique": ("name",),
    "schedule_name_unique": ("agent", "name"),
    "parked_call_once": ("agent", "arguments"),
    "agent_email_alias_unique": ("email_alias",),
    "agent_adapter_pkey": ("agent", "adapter"),
    "tool_name_unique": ("adapter", "name"),
    "adapter_config_unique": ("template", "adapter"),
    "contact_address_pkey": ("address",),
    "attachment_chunk_pkey": ("attachment", "position"),
    "document_path_unique": ("agent", "path"),
    "document_version_pkey": ("document", "number"),
    "trace_size_pkey": ("trace",),
    "shared_content_pkey": ("organization", "digest"),
}

# A foreign key has PostgreSQL's name for it, which ends with its column.
_REFERENCE = re.compile(r"\w+_([a-z]+)_id_fkey")
_OTHER_REFERENCES = {"agent_adapter_adapter_id_fkey": "adapters"}


def constraint_error(constraint: str) -> ConstraintError | None:
    """Return the error for a violation of this constraint; None if only a bug of ours can violate it."""
    if constraint in _UNIQUE:
        return NotUnique(*_UNIQUE[constraint])
    if match := _REFERENCE.fullmatch(constraint):
        return ReferenceMissing(_OTHER_REFERENCES.get(constraint, match[1]))
    if constraint == "receipt_unique":
        return AnsweredBefore("a request with this idempotency key has been answered")
    return None


# The first line that fits an error says what it means.
_MEANINGS: tuple[tuple[Any, type[StorageError], str], ...] = (
    (_UNUSABLE, DatabaseRefused, "the database cannot be used: "),
    (_READ_ONLY, DatabaseReadOnly, "the database cannot be written to: "),
    (asyncpg.InvalidCachedStatementError, SchemaChanged, "a migration has just changed the schema: "),
    (asyncpg.DiskFullError, DatabaseFull, "the disk of the database is full: "),
    (TimeoutError, NoAnswer, ""),
    (_UNAVAILABLE, DatabaseUnavailable, ""),
)


def storage_error(error: Exception, address: str = "the server") -> StorageError | None:
    """Return the error of storage for one of asyncpg; None for one that only a bug of ours can cause."""
    match error:
        case StorageError():
            return error
        case asyncpg.IntegrityConstraintViolationError():
            error.detail = None  # it quotes the row, with its secrets, and may be logged
            return constraint_error(error.constraint_name or "")
        case asyncpg.LockNotAvailableError() | asyncpg.DeadlockDetectedError():
            return RowLocked(str(error))
    for kinds, meaning, words in _MEANINGS:
        if isinstance(error, kinds):
            return meaning(words + failure_reason(error, address))
    return None


@contextmanager
def translated(address: str = "the server") -> Iterator[None]:
    """Raise the errors of storage in place of those of asyncpg."""
    try:
        yield
    except Exception as error:
        known = storage_error(error, address)
        if known is None or known is error:
            raise
        raise known from error
