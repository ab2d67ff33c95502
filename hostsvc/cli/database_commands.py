"""Commands that work on the database, whether or not the service runs: upkeep, accounts and organizations."""

from functools import partial
from uuid import UUID

import click

from hostsvc.background import WRITERS_SECONDS
from hostsvc.backup import migrate_safely
from hostsvc.cli.runner import NotFound, with_config
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
from storage.events.audit_log import AuditLog, record_act
from storage.events.model import BY_OPERATOR, INSTANCE
from storage.identity.accounts import Accounts, TokenHolders
from storage.identity.instance import EncryptionKeys, Instance
from storage.identity.organizations import Organizations
from storage.key_rotation import KeyRotation
from storage.model import Organization
from storage.postgres.membership import has_nodes
from storage.postgres.migrations import check
from storage.retention import Retention
from storage.toolbox import Adapters
from supervisors.clock import SystemClock
from supervisors.maintenance.retention_cleaner import RetentionCleaner
from web.fields import parse_uuid
from web.mail import new_reset_code

PENDING = 1
INCOMPLETE = 1


@click.command("migrate")
@click.option(
    "--check", "only_check", is_flag=True, help="Change nothing; exit with 1 if a migration is pending."
)
@with_config
async def migrate_command(config: Config, *, only_check: bool) -> int:
    """Bring the database to the schema of this version.

    The service does the same at its start.
    """
    async with open_database(config, may_create=not only_check) as url:
        now = SystemClock().now()
        names = await (check(url) if only_check else migrate_safely(config.database, url, now))
    for name in names:
        click.echo(f"{'pending' if only_check else 'applied'} {name}")
    if not names:
        click.echo("nothing to apply")
    return PENDING if only_check and names else 0


@click.command("operator-token")
@with_config
async def operator_token_command(config: Config) -> None:
    """Print the operator token, for /status/ and /metrics.

    It is created if there is none. The command needs no running service, but the database, unless
    operator.token is set.
    """
    click.echo(await operator_token(config))


@click.command("rotate-keys", short_help="Encrypt all stored secrets with a new key.")
@with_config
async def rotate_keys_command(config: Config) -> int:
    """Encrypt all stored secrets with the first of accounts.encryption_keys.

    This includes secrets stored in clear. It may run beside the service, which must have been started with
    the same first key, and may be repeated after an interruption. Afterwards the other keys can be removed.
    """
    if not config.accounts.encryption_keys:
        raise ConfigError(f"accounts.encryption_keys is empty; set it to a key made by `{NEW_KEY}`")
    async with open_database(config) as url, open_current_pool(config, url) as pool:
        cipher = await open_cipher(config.accounts.encryption_keys, pool)
        keys, now = EncryptionKeys(pool), SystemClock().now()
        first, *old = cipher.key_ids
        if first not in await keys.list_in_use():
            if await has_nodes(url):
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
        await record_act(pool, "keys_rotated", now, key=first)
    removable = f"{', '.join(old)} may be removed" if old else "it is the only one"
    click.echo(f"every secret is encrypted with the key {first}; {removable}")
    return 0


@click.command("audit", short_help="Print the audit log of the whole instance, or of an organization.")
@click.argument("organization", metavar="ORG", required=False)
@with_config
async def audit_command(config: Config, *, organization: str | None) -> None:
    """Print the audit log of what operators did to the whole instance, as JSON Lines, the oldest first.

    With ORG, the id of an organization or its name, it is the log of that one. `hostsvc verify -` proves that
    nothing is missing.
    """
    clock = SystemClock()
    async with open_current_database(config) as pool:
        owner = (await _get_organization(Organizations(pool), organization)).id if organization else INSTANCE
        log = AuditLog(pool)
        await log.chain_all(partial(clock.sleep, WRITERS_SECONDS))
        await log.record_export(owner, clock.now(), BY_OPERATOR, "")
        async for piece in log.export(owner):
            click.echo(piece, nl=False)


@click.command("vacuum")
@with_config
async def vacuum_command(config: Config) -> None:
    """Remove expired data now.

    The section [retention] says what expires when. A running service does the same every hour.
    """
    async with open_current_database(config) as pool:
        clock = SystemClock()
        removed = await RetentionCleaner(Retention(pool), config.retention, clock).run_once()
        await record_act(pool, "vacuumed", clock.now())
    for kind, count in removed.items():
        click.echo(f"removed {count} {kind}")


@click.group()
def accounts() -> None:
    """Help users with their accounts."""


@accounts.command("reset-password")
@click.argument("email")
@with_config
async def reset_password_command(config: Config, *, email: str) -> None:
    """Print a code for setting a new password.

    EMAIL is the address that the user signed up with. The code is valid for an hour, for one use.
    """
    async with open_current_database(config) as pool:
        accounts = Accounts(pool, TokenHolders(pool))
        code = await new_reset_code(accounts, email.strip(), SystemClock().now())
    if not code:
        raise NotFound(f"there is no user with the e-mail address {email}")
    click.echo(code)


@click.group()
def adapters() -> None:
    """Share tool adapters between organizations."""


@adapters.command("publish")
@click.argument("adapter_id", metavar="ID", type=click.UUID)
@with_config
async def publish_command(config: Config, *, adapter_id: UUID) -> None:
    """Let every organization see and attach an adapter.

    ID is the id of the adapter.
    """
    async with open_current_database(config) as pool:
        adapter = await Adapters(pool).publish(adapter_id)
    if adapter is None:
        raise NotFound(f"there is no adapter {adapter_id}")
    click.echo(f"{adapter.name} is public: every organization can see and attach it")


organization_argument = click.argument("organization", metavar="ORG", required=False)
all_option = click.option("--all", "whole", is_flag=True, help="Instead of one organization: everything.")


@click.command("pause")
@organization_argument
@all_option
@with_config
async def pause_command(config: Config, *, organization: str | None, whole: bool) -> None:
    """Stop all runs of an organization and start no new ones.

    ORG is the id of the organization, or its name. With --all no webhook is sent either, no schedule
    notifies, and no approved call is made.
    """
    await _set_paused(config, organization, whole=whole, paused=True)


@click.command("unpause")
@organization_argument
@all_option
@with_config
async def unpause_command(config: Config, *, organization: str | None, whole: bool) -> None:
    """Let the agents of an organization start again.

    Agents that are due start at once. ORG is the id of the organization, or its name. --all ends the pause
    of the whole instance, also that of a restored backup; organizations that are paused stay so.
    """
    await _set_paused(config, organization, whole=whole, paused=False)


async def _set_paused(config: Config, id_or_name: str | None, *, whole: bool, paused: bool) -> None:
    if whole == bool(id_or_name):
        raise click.UsageError("give an organization, or --all")
    now, name = SystemClock().now(), "the whole instance"
    async with open_current_database(config) as pool:
        if id_or_name:
            organizations = Organizations(pool)
            organization = await _get_organization(organizations, id_or_name)
            await organizations.update(organization.id, {"paused": paused}, now, actor=BY_OPERATOR)
            name = organization.name
        else:
            await Instance(pool).set_paused(now, "its operator has paused it" if paused else "")
    state = "paused" if paused else "no longer paused"
    interval = f"{config.supervisors.scan_interval_seconds:g} s"
    click.echo(f"{name} is {state}; a running service follows within {interval}")


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
