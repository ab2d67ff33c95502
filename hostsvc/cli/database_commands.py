"""Commands that maintain the database: `migrate`, `operator-token` and `vacuum`."""

from pathlib import Path

import click

from hostsvc.cli import databases
from hostsvc.cli.runner import config_option, run_command
from hostsvc.config import Config
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
    run_command(file, _report_pending if only_check else _apply_migrations)


@click.command("operator-token")
@config_option
def operator_token_command(file: Path | None) -> None:
    """Print the operator token; create one if there is none.

    The service need not be running.
    """
    run_command(file, _print_operator_token)


@click.command("vacuum")
@config_option
def vacuum_command(file: Path | None) -> None:
    """Remove expired data now, as set by [retention].

    A running service does so every hour.
    """
    run_command(file, _vacuum)


async def _apply_migrations(config: Config) -> int:
    async with databases.open_database(config) as url:
        applied = await migrate(url)
    for name in applied:
        click.echo(f"applied {name}")
    if not applied:
        click.echo("nothing to apply")
    return 0


async def _report_pending(config: Config) -> int:
    async with databases.open_database(config) as url:
        pending = await check(url)
    for name in pending:
        click.echo(f"pending {name}")
    if not pending:
        click.echo("nothing to apply")
    return PENDING if pending else 0


async def _print_operator_token(config: Config) -> int:
    click.echo(await databases.operator_token(config))
    return 0


async def _vacuum(config: Config) -> int:
    async with databases.open_current_database(config) as pool:
        removed = await RetentionCleaner(Retention(pool), config.retention, SystemClock()).run_once()
    for kind, count in removed.items():
        click.echo(f"removed {count} {kind}")
    return 0
