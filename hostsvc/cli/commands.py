"""The command line. What a user can mend is one line on stderr and exit code 2, never a traceback."""

import errno
import os
import shlex
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit
from uuid import UUID

import click

from hostsvc.cli.demo import demo
from hostsvc.cli.guide import guide
from hostsvc.cli.status_client import StatusUnavailable
from hostsvc.cli.status_command import show_status, url_of
from hostsvc.config import Config, ConfigError, DatabaseChoice, load_config
from hostsvc.embedded_postgres import EmbeddedPostgresError, embedded_postgres
from hostsvc.logs import configure_logging
from hostsvc.process_harness.cache import HarnessRefused
from hostsvc.process_harness.git import GitError
from hostsvc.service import Service, serve
from storage.errors import DatabaseRefused, DatabaseUnavailable, LeadershipLost
from storage.identity.accounts import Accounts
from storage.identity.instance import Instance
from storage.identity.organizations import Organizations
from storage.identity.token_holders import TokenHolders
from storage.model import Organization
from storage.postgres.migrations import check, migrate, read_migrations, refuse_unsafe
from storage.postgres.pool import Pool, open_pool
from storage.retention import Retention
from storage.toolbox.adapters import Adapters
from supervisors.clock import SystemClock
from supervisors.maintenance.retention_cleaner import RetentionCleaner
from supervisors.policy.phases import Phase
from web.credentials.formats import hash_secret, make_code
from web.fields import parse_uuid

try:
    from uvloop import run as run_loop
except ImportError:  # optional: there is none for Windows
    from asyncio import run as run_loop  # type: ignore[assignment] # fewer parameters, none used here

REFUSED = 2
PENDING = 1
RESET_CODE_LIFETIME = timedelta(hours=1)
LISTENING = " (while attempting to bind"  # so ends the reason in every error of socket.create_server


class NoSuchThing(Exception):
    """What a command was given names nothing."""


USER_ERRORS = (
    ConfigError,
    EmbeddedPostgresError,
    DatabaseRefused,
    DatabaseUnavailable,
    GitError,
    HarnessRefused,
    LeadershipLost,
    NoSuchThing,
    StatusUnavailable,
    OSError,
)

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


@main.command("serve")
@click.option("--guide", "with_guide", is_flag=True, help="Print what to paste next, once it is ready.")
@config_option
def serve_command(file: Path | None, with_guide: bool) -> None:
    """Serve until SIGTERM or Ctrl-C."""
    _run(file, partial(_serve, token_command=_token_command(file) if with_guide else None), serving=True)


@main.command("demo")
@click.option("--keep", is_flag=True, help="Leave the instance serving at the end.")
@config_option
def demo_command(file: Path | None, keep: bool) -> None:
    """Show the main job, start to end, on an instance made for it; exit 1 if a step is not as promised."""
    _run(file, partial(demo, keep=keep, tell=click.echo))


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
    try:
        config.require_models()
    except ConfigError as error:
        _refuse(str(error))
    click.echo(f"the configuration is valid; it comes from {', '.join(config.origins) or 'the defaults'}")


@main.command()
@config_option
def operator_token(file: Path | None) -> None:
    """Print the operator token, making one if there is none; the service may be up or down."""
    _run(file, _print_operator_token)


@main.command("status")
@click.argument("agent_id", metavar="[AGENT]", type=click.UUID, required=False)
@click.option("--watch", is_flag=True, help="Show it anew every second, until Ctrl-C.")
@click.option(
    "--phase", type=click.Choice([phase.value for phase in Phase]), help="Only the agents in this phase."
)
@click.option("--url", metavar="URL", help="The service to ask; without it the one of the configuration.")
@config_option
def status_command(
    agent_id: UUID | None, watch: bool, phase: str | None, url: str | None, file: Path | None
) -> None:
    """Show how a running service is, or why one agent does what it does and what wakes it next."""
    _run(file, partial(_show_status, agent_id=agent_id, watch=watch, phase=phase, url=url))


@main.group()
def adapters() -> None:
    """Tool adapters of all organizations."""


@adapters.command("publish")
@click.argument("adapter_id", metavar="ID", type=click.UUID)
@config_option
def publish_command(adapter_id: UUID, file: Path | None) -> None:
    """Let every organization see and attach an adapter; the service may be up or down."""
    _run(file, partial(_publish, adapter_id=adapter_id))


@main.group()
def accounts() -> None:
    """The people who use the service."""


@accounts.command("reset-password")
@click.argument("email")
@config_option
def reset_password_command(email: str, file: Path | None) -> None:
    """Print a code, good for an hour, by which a user can set another password."""
    _run(file, partial(_print_reset_code, email=email))


@main.command("pause")
@click.argument("organization", metavar="ORG")
@config_option
def pause_command(organization: str, file: Path | None) -> None:
    """Stop the runs of an organization, by its id or name, and hold every start."""
    _run(file, partial(_set_paused, wanted=organization, paused=True))


@main.command("unpause")
@click.argument("organization", metavar="ORG")
@config_option
def unpause_command(organization: str, file: Path | None) -> None:
    """Let an organization's agents start again, those that are due at once."""
    _run(file, partial(_set_paused, wanted=organization, paused=False))


@main.command("vacuum")
@config_option
def vacuum_command(file: Path | None) -> None:
    """Remove what is kept no longer ([retention]) now; a service that is up does so every hour."""
    _run(file, _vacuum)


def _load(file: Path | None) -> Config:
    try:
        return load_config(file, os.environ)
    except ConfigError as error:
        _refuse(str(error))


def _run(
    file: Path | None, work: Callable[[Config], Coroutine[Any, Any, int]], *, serving: bool = False
) -> NoReturn:
    config = _load(file)
    # What tells its own story needs no log lines beside it, unless something is wrong or they are asked for.
    is_quiet = not serving and config.log.level == "info"
    configure_logging(replace(config.log, level="warning") if is_quiet else config.log)
    try:
        sys.exit(run_loop(work(config)))
    except USER_ERRORS as error:
        _refuse(_advice(error, config))


def _refuse(message: str) -> NoReturn:
    click.echo(f"hostsvc: {' '.join(message.split())}", err=True)
    sys.exit(REFUSED)


def _advice(error: Exception, config: Config) -> str:
    address = f"port {config.server.port} on {config.server.host}"
    match error:
        case DatabaseUnavailable():
            return f"{_name_of(config.database)}: {error}; start it, or correct database.url"
        case OSError(errno=errno.EADDRINUSE):
            return f"{address} is in use: stop what uses it, or set another server.port"
        case OSError(strerror=str(reason)) if LISTENING in reason:
            reason = reason.partition(LISTENING)[0]
            return f"{address} cannot be listened on: {reason}; correct server.host or server.port"
        case OSError():
            return f"{error.filename or 'the system'}: {error.strerror or error}"
        case _:
            return str(error)


@asynccontextmanager
async def _database(config: Config) -> AsyncIterator[str]:
    """The URL of a safe database; the embedded one runs at least as long as it is used here."""
    async with AsyncExitStack() as stack:
        url = config.database.url or await stack.enter_async_context(
            embedded_postgres(config.database.data_dir, SystemClock())
        )
        await refuse_unsafe(url)
        yield url


@asynccontextmanager
async def _current_database(config: Config) -> AsyncIterator[Pool]:
    """A database of this version's schema, whether or not the service is up on it."""
    async with _database(config) as url:
        if await check(url):
            raise DatabaseRefused("the database has an older schema: run hostsvc migrate first")
        async with open_pool(config.database.pool_settings(url), epoch=None) as pool:
            yield pool


def _name_of(database: DatabaseChoice) -> str:
    """The database without its password."""
    if not database.url:
        return f"the embedded database in {database.data_dir}"
    parts = urlsplit(database.url)
    return f"the database {parts.netloc.rpartition('@')[2]}{parts.path}"


def _token_command(file: Path | None) -> str:
    """How the shell that started this prints the operator token."""
    is_script = Path(sys.argv[0]).name == "hostsvc"
    program = [sys.argv[0]] if is_script else [sys.executable, "-m", "hostsvc"]
    return shlex.join([*program, "operator-token", *(["--config", str(file)] if file else [])])


async def _serve(config: Config, *, token_command: str | None) -> int:
    def on_ready(service: Service) -> None:
        if token_command:
            click.echo(guide(service.base_url, token_command))

    await serve(config, click.echo, on_ready)
    return 0


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


async def _show_status(
    config: Config, *, agent_id: UUID | None, watch: bool, phase: str | None, url: str | None
) -> int:
    async def fetch_token() -> str:
        return config.operator.token or await _kept_operator_token(config)

    url = url.rstrip("/") if url else url_of(config.server)
    await show_status(url, fetch_token, agent_id, phase, watch=watch)
    return 0


async def _kept_operator_token(config: Config) -> str:
    async with _database(config) as url:
        if await _is_empty(url):
            await migrate(url)
        async with open_pool(config.database.pool_settings(url), epoch=None) as pool:
            return await Instance(pool).operator_token()


async def _publish(config: Config, *, adapter_id: UUID) -> int:
    async with _current_database(config) as pool:
        adapter = await Adapters(pool).publish(adapter_id)
    if adapter is None:
        raise NoSuchThing(f"there is no adapter {adapter_id}")
    click.echo(f"{adapter.name} is public: every organization can see and attach it")
    return 0


async def _print_reset_code(config: Config, *, email: str) -> int:
    code = make_code()
    async with _current_database(config) as pool:
        until = SystemClock().now() + RESET_CODE_LIFETIME
        accounts = Accounts(pool, TokenHolders(pool))
        if not await accounts.keep_reset_code(email.strip(), hash_secret(code), until):
            raise NoSuchThing(f"there is no user with the e-mail address {email}")
    click.echo(code)
    return 0


async def _set_paused(config: Config, *, wanted: str, paused: bool) -> int:
    async with _current_database(config) as pool:
        organizations = Organizations(pool)
        organization = await _organization(organizations, wanted)
        await organizations.update(organization.id, {"paused": paused})
    state = "paused" if paused else "not paused any more"
    interval = f"{config.supervisors.scan_interval_seconds:g} s"
    click.echo(f"{organization.name} is {state}; a service that is up goes by it within {interval}")
    return 0


async def _vacuum(config: Config) -> int:
    async with _current_database(config) as pool:
        removed = await RetentionCleaner(Retention(pool), config.retention, SystemClock()).run_once()
    for kind, number in removed.items():
        click.echo(f"removed {number} {kind}")
    return 0


async def _organization(organizations: Organizations, wanted: str) -> Organization:
    """The organization of this id or, if it has the name alone, of this name."""
    organization_id = parse_uuid(wanted)
    by_id = await organizations.get(organization_id) if organization_id else None
    found = [by_id] if by_id else await organizations.find_by_name(wanted)
    if not found:
        raise NoSuchThing(f"there is no organization {wanted}")
    if len(found) > 1:
        ids = ", ".join(str(each.id) for each in found)
        raise NoSuchThing(f"{len(found)} organizations are called {wanted}; give the id of one: {ids}")
    return found[0]


async def _is_empty(url: str) -> bool:
    # An older schema has the token's table as well, and is not for this command to change.
    return len(await check(url)) == len(read_migrations())
