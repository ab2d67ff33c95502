"""Commands about tenants: `accounts`, `adapters`, `pause` and `unpause`. They need no running service."""

from datetime import timedelta
from functools import partial
from pathlib import Path
from uuid import UUID

import click

from hostsvc.cli.runner import NotFound, config_option, run_command
from hostsvc.config import Config
from hostsvc.database import open_current_database
from storage.events.model import BY_OPERATOR
from storage.identity.accounts import Accounts
from storage.identity.organizations import Organizations
from storage.identity.token_holders import TokenHolders
from storage.model import Organization
from storage.toolbox.adapters import Adapters
from supervisors.clock import SystemClock
from web.credentials.formats import hash_secret, make_code
from web.fields import parse_uuid

RESET_CODE_LIFETIME = timedelta(hours=1)


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
