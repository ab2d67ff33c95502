"""Commands that write a backup of the database, restore it, and judge whether it can be restored."""

import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from hostsvc.backup import back_up, restore
from hostsvc.cli.runner import with_config
from hostsvc.config import Config, DatabaseChoice
from hostsvc.database import open_database, require_keys
from storage.events.audit_log import record_act
from storage.postgres.connections import connect
from storage.postgres.migrations import list_pending
from storage.restored import find
from supervisors.clock import SystemClock

BROKEN = 1
MAX_SHOWN = 10
COUNT = "SELECT (SELECT count(*) FROM organization), (SELECT count(*) FROM agent WHERE deleted_at IS NULL)"

backup_argument = click.argument("backup", metavar="FILE", type=click.Path(path_type=Path))


@click.command("backup", short_help="Write the whole database to a file.")
@backup_argument
@with_config
async def backup_command(config: Config, *, backup: Path) -> None:
    """Write one snapshot of the database to FILE, whether or not the service runs.

    The configuration is not in it, and so accounts.encryption_keys is not either: keep them elsewhere.
    """
    async with open_database(config) as url:
        now = SystemClock().now()
        header = await back_up(url, backup, now)
        click.echo(f"wrote {backup} of hostsvc {header.version}, with the migration {header.migration}")
        async with connect(url) as connection:
            organizations, agents = await connection.fetchrow(COUNT) or (0, 0)
            name = config.database.name
            click.echo(f"from {name}, with organizations: {organizations:,}, agents: {agents:,}")
            if not await list_pending(connection):  # an older schema has no such log
                await record_act(connection, "backed_up", now, file=str(backup))


@click.command("restore", short_help="Restore a backup as a paused instance.")
@backup_argument
@click.option("--check", "only_check", is_flag=True, help="Into a scratch server, which is removed again.")
@click.option("--database", "url", metavar="URL", help="The empty database, instead of database.url.")
@with_config
async def restore_command(config: Config, *, backup: Path, only_check: bool, url: str | None) -> int:
    """Restore FILE into an empty database, and bring it to the schema of this version.

    Nothing starts and nothing is sent until `hostsvc unpause --all`; the command says what follows then. The
    exit code is 1 if an invariant is broken, and 2 if nothing was restored or an encryption key is missing.
    """
    with tempfile.TemporaryDirectory(prefix="hostsvc-check-") as scratch:
        os.chmod(scratch, 0o711)  # noqa: S103 -- the server may run as another user
        database = replace(config.database, url=url) if url else config.database
        database = DatabaseChoice(data_dir=Path(scratch)) if only_check else database
        async with open_database(replace(config, database=database), may_create=True) as opened:
            header = await restore(opened, backup, SystemClock().now())
            click.echo(f"restored {backup}, made {header.made_at} by hostsvc {header.version}")
            async with connect(opened) as connection:
                following, breaches = await find(connection, "following"), await find(connection, "breaches")
            state = "would be" if only_check else "is"
            click.echo(f"The instance {state} paused until: hostsvc unpause --all. Then follow:")
            for what, names in following.items():
                click.echo(f"  {what}: {_some(names)}")
            broken = {invariant: ids for invariant, ids in breaches.items() if ids}
            click.echo(f"invariants checked: {len(breaches)}, broken: {len(broken)}")
            for invariant, ids in broken.items():
                click.echo(f"{invariant}: {_some(ids)}", err=True)
            await require_keys(config.accounts.encryption_keys, opened)
    return BROKEN if broken else 0


def _some(names: Sequence[str]) -> str:
    more = ", …" if len(names) > MAX_SHOWN else ""
    return f"{len(names):,}" + (f" ({', '.join(names[:MAX_SHOWN])}{more})" if names else "")
