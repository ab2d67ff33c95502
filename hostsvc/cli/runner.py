"""Runs one command. An error that the user can correct is one line on stderr with exit code 2."""

import errno
import os
import sys
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from typing import Any, NoReturn

import click
import structlog

from hostsvc.cli.status_client import StatusUnavailable
from hostsvc.config import Config, ConfigError
from hostsvc.config_reader import ConfigErrors, read_config, stray_variables
from hostsvc.embedded_postgres import EmbeddedPostgresError
from hostsvc.logs import configure_logging, log_uncaught_errors
from hostsvc.process_harness.cache import HarnessRefused
from hostsvc.process_harness.git import GitError
from hostsvc.start_checks import cannot_listen, start_errors
from storage.errors import DatabaseRefused, DatabaseUnavailable, NodeEnded, SecretUnreadable

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
    NodeEnded,
    NotFound,
    SecretUnreadable,
    OSError,
)

config_option = click.option(
    "--config",
    "file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The configuration file. Without it: config.toml in this directory, or else the defaults.",
)


def read_config_to_serve(file: Path | None) -> tuple[Config, ConfigErrors]:
    """Read the configuration. The errors include what would keep the service from starting here."""
    config, errors = read_config(file, os.environ)
    errors.messages += start_errors(config, errors.sections, os.environ)
    return config, errors


def run_command(
    file: Path | None, work: Callable[[Config], Coroutine[Any, Any, int | None]], *, is_service: bool = False
) -> NoReturn:
    """Load the configuration, run `work` and end the process with the exit code it returns (None: 0).

    Only the service logs at level "info" by default, and says in the log why it ends: other commands print
    their results.
    """
    config, errors = read_config_to_serve(file) if is_service else read_config(file, os.environ)
    if errors.sections:  # so the configuration of the log may be wrong, too
        refuse(*errors.messages)
    is_quiet = not is_service and config.log.level == "info"
    configure_logging(replace(config.log, level="warning") if is_quiet else config.log)
    if is_service:
        log_uncaught_errors()
        for message in stray_variables(config, os.environ):
            log.warning(message)
        if errors.messages:
            _refuse_to_serve(config, *errors.messages)
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        sys.exit(run_loop(work(config)))
    except StatusUnavailable as error:
        refuse(*error.messages, exit_code=error.exit_code)
    except USER_ERRORS as error:
        if isinstance(error, BrokenPipeError) and not is_service:
            raise  # nobody reads the rest, as in `hostsvc status | head`: click ends the process in silence
        message = error_message(error, config)
        if is_service:
            _refuse_to_serve(config, message)
        refuse(message)


def with_config(work: Callable[..., Coroutine[Any, Any, int | None]]) -> Callable[..., NoReturn]:
    """Return the function of a command that runs `work(config, **arguments)`, with the option --config."""

    @config_option
    @wraps(work)
    def command(file: Path | None, **arguments: Any) -> NoReturn:
        run_command(file, partial(work, **arguments))

    return command


def _refuse_to_serve(config: Config, *messages: str) -> NoReturn:
    """End the process like `refuse`, but log the messages if the log is JSON, which text would break."""
    if not config.log.is_json(sys.stderr):
        refuse(*messages)
    for message in messages:
        log.error("service refused", reason=message)
    sys.exit(REFUSED)


def refuse(*messages: str, exit_code: int = REFUSED) -> NoReturn:
    """Print each message as one line on stderr and end the process with the exit code."""
    for message in messages:
        print_problem(message)
    sys.exit(exit_code)


def print_problem(message: str) -> None:
    """Print a message as one line on stderr."""
    click.echo(f"hostsvc: {' '.join(message.split())}", err=True)


def error_message(error: Exception, config: Config) -> str:
    """Return what went wrong and what to do about it, without secrets."""
    address = f"port {config.server.port} on {config.server.host}"
    match error:
        case DatabaseUnavailable():
            return (
                f"the database is unavailable: {error}; start {config.database.name}, or correct database.url"
            )
        case OSError(errno=errno.EADDRINUSE):
            return f"{address} is in use: stop the program that uses it, or set another server.port"
        case OSError(strerror=str(reason)) if BIND_FAILED in reason:
            reason = reason.partition(BIND_FAILED)[0]
            return cannot_listen(config.server, reason)
        case OSError():
            return f"{error.filename or 'the system'}: {error.strerror or error}"
        case _:
            return str(error)
