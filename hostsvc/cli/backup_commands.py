"""Commands that write a backup of the database, restore it, and judge whether it can be restored."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import click

from hostsvc.backup import back_up, restore
from hostsvc.cli.runner import print_problem, with_config
from hostsvc.config import Config, DatabaseChoice
from hostsvc.database import open_database, require_keys
from storage.errors import DatabaseRefused
from storage.postgres.connections import connect
from storage.restored import BREACHES, Due, find_breaches, read_due
from supervisors.clock import SystemClock

BROKEN = 1
MAX_SHOWN = 10

backup_argument = click.argument("backup", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))


@click.command("backup", short_help="Write the whole database to a file.")
@backup_argument
@with_config
async def backup_command(config: Config, *, backup: Path) -> None:
    """Write one snapshot of the database to FILE, whether or not the service runs.

    The file is replaced when the new backup is complete. It holds everything but accounts.encryption_keys
    and the rest of the configuration: keep these elsewhere.
    """
    async with open_database(config) as url:
        header = await back_up(url, backup, SystemClock().now())
    click.echo(f"wrote {backup} of hostsvc {header.version}, with the migration {header.migration}")
    if config.accounts.encryption_keys:
        click.echo("accounts.encryption_keys is not in it: without these keys its secrets are lost")


@click.command("restore", short_help="Restore a backup as a paused instance.")
@backup_argument
@click.option(
    "--check", "only_check", is_flag=True, help="Restore into a scratch server, judge it, and remove it."
)
@click.option(
    "--database", "url", metavar="URL", help="The database to restore into, instead of database.url."
)
@with_config
async def restore_command(config: Config, *, backup: Path, only_check: bool, url: str | None) -> int:
    """Restore FILE into an empty database, and bring it to the schema of this version.

    The instance is paused: nothing starts and nothing is sent until `hostsvc unpause --all`. The command
    says what would follow then. With --check the exit code is 1 if an invariant is broken.
    """
    if url:
        config = replace(config, database=replace(config.database, url=url))
    with _target(config, only_check) as target:
        return await _restore(config, target, backup)


async def _restore(config: Config, target: Config, file: Path) -> int:
    async with open_database(target) as opened:
        now = SystemClock().now()
        header = await restore(opened, file, now)
        async with connect(opened) as connection:
            due, breaches = await read_due(connection, now), await find_breaches(connection)
        made = f"made {header.made_at} by hostsvc {header.version}"
        click.echo(f"restored {file}, {made}, into {target.database.name}")
        _tell(due)
        for name, ids in breaches.items():
            click.echo(f"broken invariant {name}: {_some(ids)}", err=True)
        click.echo(f"invariants checked: {len(BREACHES)}, broken: {len(breaches)}")
        try:
            await require_keys(config.accounts.encryption_keys, opened)
        except DatabaseRefused as error:
            print_problem(f"warning: {error}")
    return BROKEN if breaches else 0


@contextmanager
def _target(config: Config, only_check: bool) -> Iterator[Config]:
    """Yield a configuration with the database to restore into; a scratch one is removed afterwards."""
    if not only_check:
        yield config
        return
    with tempfile.TemporaryDirectory(prefix="hostsvc-check-") as directory:
        Path(directory).chmod(0o711)  # the server may run as another user
        yield replace(config, database=DatabaseChoice(data_dir=Path(directory)))


def _tell(due: Due) -> None:
    """Print what follows when the pause ends."""
    click.echo("the instance is paused until: hostsvc unpause --all. Then follow")
    for what, which in (
        ("agents that have something due", due.agents),
        ("runs that were under way, and start again", due.runs),
        ("schedules that missed something, each by its own rule", due.schedules),
        ("webhooks, sent with the ids that they had", due.webhooks),
        ("parked calls to look at", due.calls),
    ):
        click.echo(f"  {what}: {which if isinstance(which, int) else _some(which)}")


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_SHOWN:,} more" if len(names) > MAX_SHOWN else ""
    return f"{len(names):,}" + (f" ({', '.join(names[:MAX_SHOWN])}{more})" if names else "")
