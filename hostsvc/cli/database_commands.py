"""Commands that maintain the database: `migrate`, `operator-token` and `vacuum`."""

from functools import partial
from pathlib import Path

import click

from hostsvc.cli import databases
from hostsvc.cli.runner import config_option, run_command
from hostsvc.config import Config
from hostsvc.service import open_database
from storage.postgres.migrations import check, migrate
from storage.retention import Retention
from supervisors.clock import SystemClock
from supervisors.maintenance.retention_cleaner import RetentionCleaner

PENDING = 1


@click.command("migrate")
@click.option(
    "--check", "only_check", is_flag=True, help="Change nothing; exit with 1 if a migration is pending."
)
@config_option
def migrate_command(file: Path | None, only_check: bool) -> None:
    """Bring the database to the schema of this version."""
    run_command(file, partial(_migrate, only_check=only_check))


@click.command("operator-token")
@config_option
def operator_token_command(file: Path | None) -> None:
    """Print the operator token; create one if there is none.

    It needs no running service.
    """
    run_command(file, _print_operator_token)


@click.command("vacuum")
@config_option
def vacuum_command(file: Path | None) -> None:
    """Remove expired data now, as set by [retention].

    A running service does so every hour.
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
    click.echo(await databases.operator_token(config))


async def _vacuum(config: Config) -> None:
    async with databases.open_current_database(config) as pool:
        removed = await RetentionCleaner(Retention(pool), config.retention, SystemClock()).run_once()
    for kind, count in removed.items():
        click.echo(f"removed {count} {kind}")
