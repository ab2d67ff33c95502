"""Storage errors instead of those of asyncpg, libpq and the operating system.

They report the same failure in different words, some of which name classes and descriptors. Their own words
remain for failures that are not known here, such as a wrong password.
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

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


_UNIQUE = {
    "user_account_pkey": ("id",),
    "user_account_email_unique": ("email",),
    "membership_unique": ("user", "organization"),
    "invite_pkey": ("id",),
    "api_key_pkey": ("id",),
    "api_key_prefix_unique": ("prefix",),
    "template_pkey": ("id",),
    "secret_pkey": ("id",),
    "secret_name_unique": ("name",),
    "agent_pkey": ("id",),
    "agent_email_alias_unique": ("email_alias",),
    "agent_adapter_pkey": ("agent", "adapter"),
    "webhook_pkey": ("id",),
    "webhook_secret_pkey": ("id",),
    "adapter_pkey": ("id",),
    "tool_pkey": ("id",),
    "tool_name_unique": ("adapter", "name"),
    "adapter_config_pkey": ("id",),
    "adapter_config_unique": ("template", "adapter"),
    "notification_pkey": ("id",),
    "contact_pkey": ("id",),
    "contact_address_pkey": ("address",),
    "message_pkey": ("id",),
    "attachment_pkey": ("id",),
    "attachment_chunk_pkey": ("attachment", "position"),
    "document_pkey": ("id",),
    "document_path_unique": ("agent", "path"),
    "document_version_pkey": ("document", "number"),
    "project_pkey": ("id",),
    "run_pkey": ("id",),
    "trace_pkey": ("id",),
    "span_pkey": ("id",),
    "span_metadata_pkey": ("id",),
    "trace_size_pkey": ("trace",),
    "shared_content_pkey": ("organization", "digest"),
}

_REFERENCES = {
    "membership_organization_id_fkey": "organization",
    "membership_user_id_fkey": "user",
    "login_network_user_id_fkey": "user",
    "invite_organization_id_fkey": "organization",
    "api_key_organization_id_fkey": "organization",
    "adapter_organization_id_fkey": "organization",
    "template_organization_id_fkey": "organization",
    "secret_organization_id_fkey": "organization",
    "secret_template_id_fkey": "template",
    "agent_organization_id_fkey": "organization",
    "agent_template_id_fkey": "template",
    "agent_parent_id_fkey": "parent",
    "agent_adapter_agent_id_fkey": "agent",
    "agent_adapter_adapter_id_fkey": "adapters",
    "tool_adapter_id_fkey": "adapter",
    "adapter_config_template_id_fkey": "template",
    "adapter_config_adapter_id_fkey": "adapter",
    "agent_state_agent_id_fkey": "agent",
    "notification_agent_id_fkey": "agent",
    "contact_organization_id_fkey": "organization",
    "contact_agent_id_fkey": "agent",
    "contact_address_organization_id_fkey": "organization",
    "contact_address_contact_id_fkey": "contact",
    "message_organization_id_fkey": "organization",
    "message_agent_id_fkey": "agent",
    "message_contact_id_fkey": "contact",
    "attachment_organization_id_fkey": "organization",
    "attachment_agent_id_fkey": "agent",
    "attachment_message_id_fkey": "message",
    "attachment_chunk_attachment_id_fkey": "attachment",
    "document_organization_id_fkey": "organization",
    "document_agent_id_fkey": "agent",
    "document_project_id_fkey": "project",
    "document_version_document_id_fkey": "document",
    "project_organization_id_fkey": "organization",
    "project_agent_id_fkey": "agent",
    "webhook_delivery_organization_id_fkey": "organization",
    "webhook_organization_id_fkey": "organization",
    "webhook_secret_webhook_id_fkey": "webhook",
}


def constraint_error(constraint: str) -> ConstraintError | None:
    """Return the error for a violation of this constraint; None if only a bug of ours can violate it."""
    if constraint in _UNIQUE:
        return NotUnique(*_UNIQUE[constraint])
    if constraint in _REFERENCES:
        return ReferenceMissing(_REFERENCES[constraint])
    if constraint == "receipt_unique":
        return AnsweredBefore("a request with this idempotency key has been answered")
    return None


@contextmanager
def translated(address: str = "the server") -> Iterator[None]:
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
        raise DatabaseRefused(f"the database cannot be used: {failure_reason(error)}") from error
    except _READ_ONLY as error:
        raise DatabaseReadOnly(f"the database cannot be written to: {failure_reason(error)}") from error
    except asyncpg.DiskFullError as error:
        raise DatabaseFull(f"the disk of the database is full: {failure_reason(error)}") from error
    except TimeoutError as error:
        raise NoAnswer(failure_reason(error)) from error
    except _UNAVAILABLE as error:
        raise DatabaseUnavailable(failure_reason(error, address)) from error
