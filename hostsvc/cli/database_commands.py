"""Commands that maintain the database: `migrate`, `operator-token`, `rotate-keys` and `vacuum`."""

from functools import partial
from pathlib import Path

import click

from hostsvc.cli.runner import config_option, run_command
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
from storage.identity.encryption_keys import EncryptionKeys
from storage.key_rotation import KeyRotation
from storage.postgres.leadership import has_leader
from storage.postgres.migrations import check, migrate
from storage.retention import Retention
from supervisors.clock import SystemClock
from supervisors.maintenance.retention_cleaner import RetentionCleaner

PENDING = 1
INCOMPLETE = 1


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
