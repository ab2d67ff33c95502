"""The command line. What a user can mend is one line on stderr and exit code 2, never a traceback."""

import asyncio
import errno
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NoReturn

import click

from hostsvc.config import Config, ConfigError, load_config
from hostsvc.embedded_postgres import EmbeddedPostgresError, embedded_postgres
from hostsvc.logs import configure_logging
from storage.errors import DatabaseRefused, DatabaseUnavailable
from storage.instance import Instance
from storage.migrate import check, migrate, read_migrations, refuse_unsafe
from storage.pool import open_pool

REFUSED = 2
PENDING = 1

USER_ERRORS = (EmbeddedPostgresError, DatabaseRefused, DatabaseUnavailable, OSError)

config_option = click.option(
    "--config",
    "file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The configuration; without it config.toml in this directory, else the defaults.",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Host long-lived agents for organizations, over a REST API."""


@main.command("migrate")
@click.option("--check", "only_check", is_flag=True, help="Change nothing; exit 1 if something is pending.")
@config_option
def migrate_command(file: Path | None, only_check: bool) -> None:
    """Bring the database to this version's schema."""
    _run(file, _report_pending if only_check else _apply_migrations)


@main.command()
@config_option
def check_config(file: Path | None) -> None:
    """Say whether the configuration is valid, and where it came from."""
    config = _load(file)
    click.echo(f"the configuration is valid; it comes from {', '.join(config.origins) or 'the defaults'}")


@main.command()
@config_option
def operator_token(file: Path | None) -> None:
    """Print the operator token, making one if there is none; the service may be up or down."""
    _run(file, _print_operator_token)


def _load(file: Path | None) -> Config:
    try:
        return load_config(file, os.environ)
    except ConfigError as error:
        _refuse(str(error))


def _run(file: Path | None, work: Callable[[Config], Coroutine[Any, Any, int]]) -> NoReturn:
    config = _load(file)
    configure_logging(config.log)
    try:
        sys.exit(asyncio.run(work(config)))
    except USER_ERRORS as error:
        _refuse(_advice(error, config))


def _refuse(message: str) -> NoReturn:
    click.echo(f"hostsvc: {' '.join(message.split())}", err=True)
    sys.exit(REFUSED)


def _advice(error: Exception, config: Config) -> str:
    match error:
        case DatabaseUnavailable():
            return f"the database is not available: {error}; start it, or correct database.url"
        case OSError(errno=errno.EADDRINUSE):
            return (
                f"port {config.server.port} on {config.server.host} is in use; "
                "stop what uses it, or set another server.port"
            )
        case OSError():
            return f"{error.filename or 'the system'}: {error.strerror or error}"
        case _:
            return str(error)


@asynccontextmanager
async def _database(config: Config) -> AsyncIterator[str]:
    """The URL of a safe database; the embedded one runs at least as long as it is used here."""
    async with AsyncExitStack() as stack:
        url = config.database.url or await stack.enter_async_context(
            embedded_postgres(config.database.data_dir)
        )
        await refuse_unsafe(url)
        yield url


async def _apply_migrations(config: Config) -> int:
    async with _database(config) as url:
        applied = await migrate(url)
    for name in applied:
        click.echo(f"applied {name}")
    if not applied:
        click.echo("nothing to apply")
    return 0


async def _report_pending(config: Config) -> int:
    async with _database(config) as url:
        pending = await check(url)
    for name in pending:
        click.echo(f"pending {name}")
    if not pending:
        click.echo("nothing to apply")
    return PENDING if pending else 0


async def _print_operator_token(config: Config) -> int:
    token = config.operator.token or await _kept_operator_token(config)
    click.echo(token)
    return 0


async def _kept_operator_token(config: Config) -> str:
    async with _database(config) as url:
        if await _is_empty(url):
            await migrate(url)
        async with open_pool(config.database.at(url), epoch=None) as pool:
            return await Instance(pool).operator_token()


async def _is_empty(url: str) -> bool:
    # An older schema has the token's table as well, and is not for this command to change.
    return len(await check(url)) == len(read_migrations())
