"""Reasons for which the database cannot be used, in words for the log and the status.

asyncpg, libpq and the operating system report the same failure in different words, some of which name classes
and descriptors. Their own words remain for failures that are not known here, such as a wrong password.
"""

import socket

import asyncpg

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
