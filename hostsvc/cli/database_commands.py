"""Commands that work on the database, whether or not the service runs: upkeep, accounts and organizations."""

from datetime import timedelta
from functools import partial
from pathlib import Path
from uuid import UUID

import click

from hostsvc.cli.runner import NotFound, config_option, run_command
from hostsvc.config import Config, ConfigError
from hostsvc.database import (
    NEW_KEY,
    open_cipher,
    open_current_database,
    open_current_pool,
    open_database,
    operator_token,
)
from storage.errors import DatabaseRefused
from storage.events.model import BY_OPERATOR
from storage.identity.accounts import Accounts
from storage.identity.encryption_keys import EncryptionKeys
from storage.identity.organizations import Organizations
from storage.identity.token_holders import TokenHolders
from storage.key_rotation import KeyRotation
from storage.model import Organization
from storage.postgres.leadership import has_leader
from storage.postgres.migrations import check, migrate
from storage.retention import Retention
from storage.toolbox.adapters import Adapters
from supervisors.clock import SystemClock
from supervisors.maintenance.retention_cleaner import RetentionCleaner
from web.credentials.formats import hash_secret, make_code
from web.fields import parse_uuid

PENDING = 1
INCOMPLETE = 1

RESET_CODE_LIFETIME = timedelta(hours=1)


@click.command("migrate")
@click.option(
    "--check", "only_check", is_flag=True, help="Change nothing; exit with 1 if a migration is pending."
)
@config_option
def migrate_command(file: Path | None, only_check: bool) -> None:
    """Bring the database to the schema of this version.

    The service does the same at its start.
    """
    run_command(file, partial(_migrate, only_check=only_check))


@click.command("operator-token")
@config_option
def operator_token_command(file: Path | None) -> None:
    """Print the operator token, for /status/ and /metrics.

    It is created if there is none. The command needs no running service, but the database, unless
    operator.token is set.
    """
    run_command(file, _print_operator_token)


@click.command("rotate-keys", short_help="Encrypt all stored secrets with a new key.")
@config_option
def rotate_keys_command(file: Path | None) -> None:
    """Encrypt all stored secrets with the first of accounts.encryption_keys.

    This includes secrets stored in clear. It may run beside the service, which must have been started with
    the same first key, and may be repeated after an interruption. Afterwards the other keys can be removed.
    """
    run_command(file, _rotate_keys)


@click.command("vacuum")
@config_option
def vacuum_command(file: Path | None) -> None:
    """Remove expired data now.

    The section [retention] says what expires when. A running service does the same every hour.
    """
    run_command(file, _vacuum)


async def _migrate(config: Config, *, only_check: bool) -> int:
    async with open_database(config) as url:
        names = await (check(url) if only_check else migrate(url))
    for name in names:
        click.echo(f"{'pending' if only_check else 'applied'} {name}")
    if not names:
        click.echo("nothing to apply")
    return PENDING if only_check and names else 0


async def _print_operator_token(config: Config) -> None:
    click.echo(await operator_token(config))


async def _rotate_keys(config: Config) -> int:
    if not config.accounts.encryption_keys:
        raise ConfigError(f"accounts.encryption_keys is empty; set it to a key made by `{NEW_KEY}`")
    async with open_database(config) as url, open_current_pool(config, url) as pool:
        cipher = await open_cipher(config.accounts.encryption_keys, pool)
        keys, now = EncryptionKeys(pool), SystemClock().now()
        first, *old = cipher.key_ids
        if first not in await keys.list_in_use():
            if await has_leader(url):
                raise DatabaseRefused(
                    "the running service was not started with the first of accounts.encryption_keys: "
                    "restart it with this configuration, then run hostsvc rotate-keys"
                )
            await keys.insert(first, now)
        is_complete = True
        async for result in KeyRotation(pool, cipher).run():
            click.echo(f"{result.kind}: {result.total}, encrypted now: {result.encrypted}")
            for problem in result.unreadable:
                click.echo(problem, err=True)
                is_complete = False
        if not is_complete:
            click.echo("keep all keys: some secrets cannot be decrypted", err=True)
            return INCOMPLETE
        await keys.retire(first, old, now)
    removable = f"{', '.join(old)} may be removed" if old else "it is the only one"
    click.echo(f"every secret is encrypted with the key {first}; {removable}")
    return 0


async def _vacuum(config: Config) -> None:
    async with open_current_database(config) as pool:
        removed = await RetentionCleaner(Retention(pool), config.retention, SystemClock()).run_once()
    for kind, count in removed.items():
        click.echo(f"removed {count} {kind}")


@click.group()
def accounts() -> None:
    """Help users with their accounts."""


@accounts.command("reset-password")
@click.argument("email")
@config_option
def reset_password_command(email: str, file: Path | None) -> None:
    """Print a code for setting a new password.

    EMAIL is the address that the user signed up with. The code is valid for an hour, for one use.
    """
    run_command(file, partial(_print_reset_code, email=email))


@click.group()
def adapters() -> None:
    """Share tool adapters between organizations."""


@adapters.command("publish")
@click.argument("adapter_id", metavar="ID", type=click.UUID)
@config_option
def publish_command(adapter_id: UUID, file: Path | None) -> None:
    """Let every organization see and attach an adapter.

    ID is the id of the adapter.
    """
    run_command(file, partial(_publish, adapter_id=adapter_id))


@click.command("pause")
@click.argument("organization", metavar="ORG")
@config_option
def pause_command(organization: str, file: Path | None) -> None:
    """Stop all runs of an organization and start no new ones.

    ORG is the id of the organization, or its name.
    """
    run_command(file, partial(_set_paused, id_or_name=organization, paused=True))


@click.command("unpause")
@click.argument("organization", metavar="ORG")
@config_option
def unpause_command(organization: str, file: Path | None) -> None:
    """Let the agents of an organization start again.

    Agents that are due start at once. ORG is the id of the organization, or its name.
    """
    run_command(file, partial(_set_paused, id_or_name=organization, paused=False))


async def _print_reset_code(config: Config, *, email: str) -> None:
    code = make_code()
    async with open_current_database(config) as pool:
        expires_at = SystemClock().now() + RESET_CODE_LIFETIME
        accounts = Accounts(pool, TokenHolders(pool))
        if not await accounts.set_reset_code(email.strip(), hash_secret(code), expires_at):
            raise NotFound(f"there is no user with the e-mail address {email}")
    click.echo(code)


async def _publish(config: Config, *, adapter_id: UUID) -> None:
    async with open_current_database(config) as pool:
        adapter = await Adapters(pool).publish(adapter_id)
    if adapter is None:
        raise NotFound(f"there is no adapter {adapter_id}")
    click.echo(f"{adapter.name} is public: every organization can see and attach it")


async def _set_paused(config: Config, *, id_or_name: str, paused: bool) -> None:
    async with open_current_database(config) as pool:
        organizations = Organizations(pool)
        organization = await _get_organization(organizations, id_or_name)
        await organizations.update(
            organization.id, {"paused": paused}, SystemClock().now(), actor=BY_OPERATOR
        )
    state = "paused" if paused else "no longer paused"
    interval = f"{config.supervisors.scan_interval_seconds:g} s"
    click.echo(f"{organization.name} is {state}; a running service follows within {interval}")


async def _get_organization(organizations: Organizations, id_or_name: str) -> Organization:
    """Return the organization with this id, or else the only one with this name. Raise NotFound."""
    organization_id = parse_uuid(id_or_name)
    by_id = await organizations.get(organization_id) if organization_id else None
    matches = [by_id] if by_id else await organizations.list_by_name(id_or_name)
    if not matches:
        raise NotFound(f"there is no organization {id_or_name}")
    if len(matches) > 1:
        ids = ", ".join(str(match.id) for match in matches)
        raise NotFound(f"{len(matches)} organizations have the name {id_or_name}; give one of the ids: {ids}")
    return matches[0]
