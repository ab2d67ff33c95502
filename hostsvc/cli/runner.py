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
from hostsvc.start_checks import start_errors
from hostsvc.workers import Worker, fork_workers
from storage.errors import DatabaseRefused, DatabaseUnavailable, NodeEnded, SecretUnreadable
from storage.events.model import BY_OPERATOR
from storage.postgres.asker import ASKER, Asker

try:
    from uvloop import run as run_loop
except ImportError:  # optional: it does not exist for Windows
    from asyncio import run as run_loop  # type: ignore[assignment] # fewer parameters, none used here

log = structlog.get_logger()

REFUSED = 2
# How long the event loop waits for a thread that computes, after each of its own system calls. The default of
# 5 ms adds up to a standstill when a thread parses a long body.
SWITCH_SECONDS = 0.0005
NO_SPACE = "No space left on device"  # PostgreSQL's words when it cannot even begin a session


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


def run_command(file: Path | None, work: Callable[[Config], Coroutine[Any, Any, int | None]]) -> NoReturn:
    """Load the configuration, run `work` and end the process with the exit code it returns (None: 0).

    It logs warnings at least: commands print their results.
    """
    config, errors = read_config(file, os.environ)
    if errors.sections:
        refuse(*errors.messages)
    is_quiet = config.log.level == "info"
    configure_logging(replace(config.log, level="warning") if is_quiet else config.log)
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        sys.exit(run_loop(_as_operator(work(config))))
    except StatusUnavailable as error:
        refuse(*error.messages, exit_code=error.exit_code)
    except BrokenPipeError:
        raise  # nobody reads the rest, as in `hostsvc status | head`: click ends the process in silence
    except USER_ERRORS as error:
        refuse(error_message(error, config))


async def _as_operator(work: Coroutine[Any, Any, int | None]) -> int | None:
    """Carry out a command, whose changes are those of the operator."""
    ASKER.set(Asker(BY_OPERATOR))
    return await work


def run_service(
    file: Path | None,
    work: Callable[[Config, Worker | None], Coroutine[Any, Any, int | None]],
    announce: Callable[[Config, str], None],
    workers: int | None = None,
) -> NoReturn:
    """Load the configuration, and run `work` in this process or in that of each worker.

    `workers` replaces node.workers. `announce` is called with the address once all workers serve. Unlike
    `run_command` it says in the log why the service ends.
    """
    config, errors = read_config_to_serve(file)
    if errors.sections:  # so the configuration of the log may be wrong, too
        refuse(*errors.messages)
    configure_logging(config.log)
    log_uncaught_errors()
    for message in stray_variables(config, os.environ):
        log.warning(message)
    if errors.messages:
        _refuse_to_serve(config, *errors.messages)
    if workers:
        config = replace(config, node=replace(config.node, workers=workers))
    sys.setswitchinterval(SWITCH_SECONDS)
    worker = None
    try:
        if config.node.workers > 1:
            worker = fork_workers(config, partial(announce, config))
            config = worker.config
            structlog.contextvars.bind_contextvars(node=config.node.name)
        sys.exit(run_loop(work(config, worker)))
    except USER_ERRORS as error:
        _refuse_to_serve(config, error_message(error, config))
    finally:
        if worker:
            worker.close()


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
        case DatabaseUnavailable() if NO_SPACE in str(error):
            return f"the disk of {config.database.name} is full ({error}): make room on it, then try again"
        case DatabaseUnavailable():
            return (
                f"the database is unavailable: {error}; start {config.database.name}, or correct database.url"
            )
        case OSError(errno=errno.EADDRINUSE):
            return f"{address} is in use: stop the program that uses it, or set another server.port"
        case OSError():
            return f"{error.filename or 'the system'}: {error.strerror or error}"
        case _:
            return str(error)
