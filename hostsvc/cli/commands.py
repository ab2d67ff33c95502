"""The command line: `hostsvc` and its commands."""

import asyncio
import os
import shlex
import sys
from collections.abc import Callable, Iterable
from functools import partial
from importlib.resources import files
from pathlib import Path

import click

from hostsvc.cli.backup_commands import backup_command, restore_command
from hostsvc.cli.database_commands import (
    accounts,
    adapters,
    audit_command,
    migrate_command,
    operator_token_command,
    pause_command,
    rotate_keys_command,
    unpause_command,
    vacuum_command,
)
from hostsvc.cli.demo import demo
from hostsvc.cli.doctor import examine
from hostsvc.cli.install_commands import init_command, install_service_command
from hostsvc.cli.runner import (
    config_option,
    print_problem,
    read_config_to_serve,
    refuse,
    run_command,
    run_service,
    with_config,
)
from hostsvc.cli.status_command import status_command
from hostsvc.cli.tail_command import tail_command
from hostsvc.config import MAX_WORKERS, Config
from hostsvc.config_reader import ConfigErrors, stray_variables
from hostsvc.operating_system import notify_systemd, open_missing_streams
from hostsvc.process_harness.cache import HarnessRefused
from hostsvc.process_harness.machine import contain_here, describe_containment, repository_error
from hostsvc.reload import reload_on_hangup
from hostsvc.service import Service, serve
from hostsvc.workers import Worker, describe_shares
from storage.events.audit_chain import BrokenChain, verify

Announce = Callable[[Config, str], None]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="hostsvc", message="hostsvc %(version)s")
def main() -> None:
    """Host long-lived agents for organizations, over a REST API.

    Settings come from the file config.toml in this directory and from variables HOSTSVC__SECTION__KEY.
    The exit code is 0, or 2 if the command was refused; docs/operate/operations.md lists the others.
    """
    open_missing_streams()


for command in (
    *(migrate_command, operator_token_command, rotate_keys_command, vacuum_command),
    *(backup_command, restore_command, audit_command),
    *(accounts, adapters, pause_command, unpause_command),
    *(status_command, tail_command, init_command, install_service_command),
):
    main.add_command(command)


@main.command("serve")
@click.option("--guide", "with_guide", is_flag=True, help="Once it is ready, print commands to paste.")
@click.option(
    "--wait-for-database",
    "wait_seconds",
    type=click.FloatRange(min=0),
    default=0,
    metavar="SECONDS",
    help="How long to wait at most if the server of database.url does not take connections yet.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, MAX_WORKERS),
    metavar="N",
    help="How many processes share the work, each a node of its own, instead of node.workers.",
)
@config_option
def serve_command(file: Path | None, wait_seconds: float, with_guide: bool, workers: int | None) -> None:
    """Run the service until SIGTERM or Ctrl-C."""
    announce = partial(_announce, token_command=_token_command(file) if with_guide else None)
    work = partial(_serve, file=file, announce=announce, wait_seconds=wait_seconds)
    run_service(file, work, announce, workers)


@main.command("demo")
@click.option("--keep", is_flag=True, help="Keep the instance running afterwards, until Ctrl-C.")
@with_config
async def demo_command(config: Config, *, keep: bool) -> int:
    """Show the service at work on a temporary instance.

    The exit code is 1 if a step fails.
    """
    return await demo(config, keep=keep, print_line=click.echo)


@main.command()
@config_option
def check_config(file: Path | None) -> None:
    """Check the configuration and say where it comes from.

    It reports all errors at once, including those that would keep `serve` from starting on this machine,
    such as an unknown user or an unreachable repository. It says what contains runs of agents' own code here.
    It warns of variables that look like settings and are none. It does not connect to the database.
    """
    config, errors = read_config_to_serve(file)
    for message in stray_variables(config, os.environ):
        print_problem(f"warning: {message}")
    if config.harness.kind == "process" and "harness" not in errors.sections:
        unreachable = asyncio.run(repository_error(config.harness, os.environ))
        if unreachable:
            errors.messages.append(unreachable)
        if not errors.messages:
            _report_containment(config, errors)
    if errors.messages:
        refuse(*errors.messages)
    if config.node.workers > 1:
        for line in describe_shares(config):
            click.echo(line)
    click.echo(f"the configuration is valid; it comes from {', '.join(config.origins) or 'the defaults'}")


@main.command("doctor")
@config_option
@click.pass_context
def doctor_command(context: click.Context, file: Path | None) -> None:
    """Check the configuration like check-config, then this machine and what the configuration names."""
    context.invoke(check_config, file=file)
    run_command(file, examine)


@main.command("verify")
@click.argument("file", type=click.File(encoding="utf-8"))
@click.option("--head", metavar="DIGEST", default="", help="A head noted down earlier, which must be in it.")
def verify_command(file: Iterable[str], head: str) -> None:
    """Prove that an export of the audit log lacks nothing.

    FILE is the answer of /api/organizations/audit-log/export/, or - for the standard input. The command needs
    neither the service nor the database. The exit code is 1 if the chain is broken.
    """
    try:
        first, number, digest = verify(file, head)
    except BrokenChain as error:
        click.echo(f"the chain is broken: {error}", err=True)
        sys.exit(1)
    click.echo(f"the chain is complete from entry {first} to {number}: {digest}")


def _report_containment(config: Config, errors: ConfigErrors) -> None:
    """Print what contains the runs on this machine, and what to do for more; or add the error."""
    try:
        containment = asyncio.run(contain_here(config.harness, os.environ))
    except HarnessRefused as error:
        errors.messages.append(str(error))
        return
    report = describe_containment(containment)
    if containment.kind == "none":
        print_problem(f"warning: {report}")
    else:
        click.echo(report)


def _token_command(file: Path | None) -> str:
    """Return the command that prints the operator token in the shell that started this process."""
    is_script = Path(sys.argv[0]).name == "hostsvc"
    program = [sys.argv[0]] if is_script else [sys.executable, "-m", "hostsvc"]
    return shlex.join([*program, "operator-token", *(["--config", str(file)] if file else [])])


async def _serve(
    config: Config, worker: Worker | None, *, file: Path | None, announce: Announce, wait_seconds: float
) -> None:
    def on_ready(service: Service) -> None:
        reload_on_hangup(file, service)
        if worker:
            worker.report_ready(service.base_url)
        else:
            announce(config, service.base_url)

    await serve(config, on_ready, worker=worker, wait_for_database_seconds=wait_seconds)


def _announce(config: Config, url: str, *, token_command: str | None) -> None:
    """Print that the service is ready at this address, and what to do there."""
    notify_systemd("READY=1")
    is_text_wanted = config.log.format != "json"
    if is_text_wanted:
        click.echo(f"hostsvc: listening on {url}")
    if token_command and (is_text_wanted or sys.stdout.isatty()):
        guide = files("hostsvc").joinpath("guide.txt").read_text(encoding="utf-8")
        click.echo(guide.format(base_url=url, operator_token_command=token_command))
