"""Reasons: each known failure in words, whichever library reports it."""

import socket

import asyncpg
import psycopg2
import pytest

from storage.errors import AnsweredBefore, NotUnique, ReferenceMissing
from storage.postgres.pool import Pool
from storage.postgres.translation import constraint_error, failure_reason


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ConnectionRefusedError(111, "Connection refused"), "connection refused by db:5432"),
        (OSError("Multiple exceptions: [Errno 111] Connect call failed"), "connection refused by db:5432"),
        (FileNotFoundError(2, "No such file or directory"), "there is no server at db:5432"),
        (OSError(113, "No route to host"), "there is no route to db:5432"),
        (socket.gaierror(-2, "Name or service not known"), "the host name of db:5432 cannot be resolved"),
        (OSError(24, "Too many open files"), "Too many open files"),
        (TimeoutError(), "the server does not answer"),
        (
            asyncpg.CannotConnectNowError("the database system is shutting down"),
            "the server is shutting down",
        ),
        (asyncpg.CannotConnectNowError("the database system is starting up"), "the server is starting up"),
        (
            asyncpg.CannotConnectNowError("the database system is in recovery mode"),
            "the server is recovering from a crash",
        ),
        (
            asyncpg.AdminShutdownError("terminating connection due to administrator command"),
            "the server is shutting down, or an administrator ended the connection",
        ),
        (
            asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation"),
            "the server closed the connection",
        ),
        (
            asyncpg.InternalClientError("cannot switch to state 12; another operation (2) is in progress"),
            "the server closed the connection",
        ),
        (
            psycopg2.OperationalError("server closed the connection unexpectedly\n\tThis probably means …"),
            "the server closed the connection",
        ),
        (
            psycopg2.OperationalError('FATAL:  password authentication failed for user "me"\n'),
            'password authentication failed for user "me"',
        ),
        (
            asyncpg.InvalidPasswordError('password authentication failed for user "me"'),
            'password authentication failed for user "me"',
        ),
        (asyncpg.InterfaceError(""), "the server closed the connection"),
    ],
)
def test_failure_is_given_in_words(error: Exception, reason: str) -> None:
    assert failure_reason(error, "db:5432") == reason


def test_unique_constraint_names_its_fields() -> None:
    error = constraint_error("tool_name_unique")
    assert isinstance(error, NotUnique)
    assert error.fields == ("adapter", "name")


def test_foreign_key_names_its_field() -> None:
    error = constraint_error("agent_adapter_adapter_id_fkey")
    assert isinstance(error, ReferenceMissing)
    assert error.field == "adapters"


def test_receipt_constraint_means_an_answered_request() -> None:
    assert isinstance(constraint_error("receipt_unique"), AnsweredBefore)


def test_unknown_constraint_has_no_error() -> None:
    assert constraint_error("run_over_with_outcome") is None


async def test_every_unique_and_foreign_key_has_an_error(pool: Pool) -> None:
    rows = await pool.fetch(
        "SELECT c.conname AS name FROM pg_constraint c JOIN pg_class t ON t.oid = c.conrelid"
        " WHERE c.contype IN ('u', 'f') AND t.relnamespace = 'public'::regnamespace"
        " UNION SELECT i.relname FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid"
        " WHERE x.indisunique AND NOT x.indisprimary AND i.relnamespace = 'public'::regnamespace"
    )
    assert [row["name"] for row in rows if constraint_error(row["name"]) is None] == []
