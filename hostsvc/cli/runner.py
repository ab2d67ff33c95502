"""Runs one command. An error that the user can correct is one line on stderr with exit code 2."""

import errno
import os
import sys
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import click
import structlog

from hostsvc.cli.status_client import StatusUnavailable
from hostsvc.config import Config, ConfigError, load_config
from hostsvc.embedded_postgres import EmbeddedPostgresError
from hostsvc.logs import configure_logging, log_uncaught_errors
from hostsvc.process_harness.cache import HarnessRefused
from hostsvc.process_harness.git import GitError
from storage.errors import DatabaseRefused, DatabaseUnavailable, LeadershipLost, SecretUnreadable

try:
    from uvloop import run as run_loop
except ImportError:  # optional: it does not exist for Windows
    from asyncio import run as run_loop  # type: ignore[assignment] # fewer parameters, none used here

log = structlog.get_logger()

REFUSED = 2
# How long the event loop waits for a thread that computes, after each of its own system calls. The default of
# 5 ms adds up to a standstill when a thread parses a long body.
SWITCH_SECONDS = 0.0005
BIND_FAILED = " (while attempting to bind"  # follows the reason in every error of socket.create_server


class NotFound(Exception):
    """An argument of a command matches nothing, or more than one thing; the message says what."""


USER_ERRORS = (
    ConfigError,
    EmbeddedPostgresError,
    DatabaseRefused,
    DatabaseUnavailable,
    GitError,
    HarnessRefused,
    LeadershipLost,
    NotFound,
    SecretUnreadable,
    StatusUnavailable,
    OSError,
)

config_option = click.option(
    "--config",
    "file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The configuration file. Without it: config.toml in this directory, or else the defaults.",
)


def read_config(file: Path | None) -> Config:
    """Load the configuration; end the process with its message if it is invalid."""
    try:
        return load_config(file, os.environ)
    except ConfigError as error:
        refuse(str(error))


def run_command(
    file: Path | None, work: Callable[[Config], Coroutine[Any, Any, int | None]], *, is_service: bool = False
) -> NoReturn:
    """Load the configuration, run `work` and end the process with the exit code it returns (None: 0).

    Only the service logs at level "info" by default, and says in the log why it ends: other commands print
    their results.
    """
    config = read_config(file)
    is_quiet = not is_service and config.log.level == "info"
    configure_logging(replace(config.log, level="warning") if is_quiet else config.log)
    if is_service:
        log_uncaught_errors()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        sys.exit(run_loop(work(config)))
    except USER_ERRORS as error:
        message = error_message(error, config)
        if not (is_service and config.log.is_json(sys.stderr)):
            refuse(message)
        log.error("service refused", reason=message)
        sys.exit(REFUSED)


def refuse(message: str) -> NoReturn:
    """Print the message as one line on stderr and end the process with exit code 2."""
    click.echo(f"hostsvc: {' '.join(message.split())}", err=True)
    sys.exit(REFUSED)


def error_message(error: Exception, config: Config) -> str:
    """Return what went wrong and what to do about it, without secrets."""
    address = f"port {config.server.port} on {config.server.host}"
    match error:
        case DatabaseUnavailable():
            return f"{error}; start {config.database.name}, or correct database.url"
        case OSError(errno=errno.EADDRINUSE):
            return f"{address} is in use: stop the program that uses it, or set another server.port"
        case OSError(strerror=str(reason)) if BIND_FAILED in reason:
            reason = reason.partition(BIND_FAILED)[0]
            return f"cannot listen on {address}: {reason}; correct server.host or server.port"
        case OSError():
            return f"{error.filename or 'the system'}: {error.strerror or error}"
        case _:
            return str(error)
