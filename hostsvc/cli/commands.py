"""The command line: `hostsvc` and its commands."""

import asyncio
import os
import shlex
import sys
from datetime import datetime
from functools import partial
from pathlib import Path

import click

from hostsvc.cli.database_commands import (
    migrate_command,
    operator_token_command,
    rotate_keys_command,
    vacuum_command,
)
from hostsvc.cli.demo import demo
from hostsvc.cli.guide import guide
from hostsvc.cli.moments import FORMS, InvalidMoment, parse_moment
from hostsvc.cli.runner import config_option, print_problem, read_config_to_serve, refuse, run_command
from hostsvc.cli.status_command import PHASES_AND_STATUSES, Selection, show_status, url_of
from hostsvc.cli.tail_command import TailOptions, tail
from hostsvc.cli.tenant_commands import accounts, adapters, pause_command, unpause_command
from hostsvc.config import Config
from hostsvc.config_reader import stray_variables
from hostsvc.database import operator_token
from hostsvc.operating_system import open_missing_streams
from hostsvc.process_harness.requirements import repository_error
from hostsvc.service import Service, serve
from supervisors.clock import SystemClock


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="hostsvc", message="hostsvc %(version)s")
def main() -> None:
    """Host long-lived agents for organizations, over a REST API.

    Settings come from the file config.toml in this directory and from variables HOSTSVC__SECTION__KEY.
    The exit code is 0, or 2 if the command was refused; docs/operations.md lists the others.
    """
    open_missing_streams()


for command in (
    *(migrate_command, operator_token_command, rotate_keys_command, vacuum_command),
    *(accounts, adapters, pause_command, unpause_command),
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
@config_option
def serve_command(file: Path | None, wait_seconds: float, with_guide: bool) -> None:
    """Run the service until SIGTERM or Ctrl-C."""
    token_command = _token_command(file) if with_guide else None
    work = partial(_serve, token_command=token_command, wait_seconds=wait_seconds)
    run_command(file, work, is_service=True)


@main.command("demo")
@click.option("--keep", is_flag=True, help="Keep the instance running afterwards, until Ctrl-C.")
@config_option
def demo_command(file: Path | None, keep: bool) -> None:
    """Show the service at work on a temporary instance.

    The exit code is 1 if a step fails.
    """
    run_command(file, partial(demo, keep=keep, print_line=click.echo))


@main.command()
@config_option
def check_config(file: Path | None) -> None:
    """Check the configuration and say where it comes from.

    It reports all errors at once, including those that would keep `serve` from starting on this machine,
    such as an unknown user or an unreachable repository. It warns of variables that look like settings and
    are none. It starts nothing and does not connect to the database.
    """
    config, errors = read_config_to_serve(file)
    for message in stray_variables(config, os.environ):
        print_problem(f"warning: {message}")
    if config.harness.kind == "process" and "harness" not in errors.sections:
        unreachable = asyncio.run(repository_error(config.harness, os.environ))
        if unreachable:
            errors.messages.append(unreachable)
    if errors.messages:
        refuse(*errors.messages)
    click.echo(f"the configuration is valid; it comes from {', '.join(config.origins) or 'the defaults'}")


@main.command("status")
@click.argument("agent", metavar="[AGENT]", required=False)
@click.option("--watch", is_flag=True, help="Show it again every second, until Ctrl-C.")
@click.option(
    "--phase",
    metavar="PHASE",
    type=click.Choice(PHASES_AND_STATUSES),
    help=f"Show only the agents in this phase or with this status: {', '.join(PHASES_AND_STATUSES)}.",
)
@click.option(
    "--at",
    "moment",
    metavar="MOMENT",
    help=f"Show AGENT as it was then. Forms: {FORMS}. Times are in the time zone of this machine, "
    "unless they name another.",
)
@click.option("--url", metavar="URL", help="The address of the service. Without it: the configured one.")
@config_option
def status_command(
    agent: str | None, watch: bool, phase: str | None, moment: str | None, url: str | None, file: Path | None
) -> None:
    """Show the state of a running service.

    With AGENT, the id or the name of an agent: show what it is doing and why, and what wakes it next.

    The exit code is 3 if no service answers, 4 if it is a standby, and 5 if it has lost its database.
    """
    if agent and phase:
        raise click.UsageError("--phase selects agents of the list: leave it out to show one AGENT")
    selection = Selection(agent, phase, _past_moment(moment, agent, watch=watch))
    run_command(file, partial(_show_status, selection=selection, watch=watch, url=url))


def _past_moment(text: str | None, agent: str | None, *, watch: bool) -> datetime | None:
    """Return the moment of --at. Raise UsageError unless it is a moment in the past of one AGENT."""
    if text is None:
        return None
    if agent is None:
        raise click.UsageError("--at shows one agent as it was: name an AGENT")
    if watch:
        raise click.UsageError("the past does not change: leave out --watch or --at")
    now = SystemClock().now()
    try:
        moment = parse_moment(text, now)
    except InvalidMoment as error:
        raise click.UsageError(f"--at: {error}") from error
    if moment > now:
        raise click.UsageError(f"--at: {text!r} lies ahead; leave --at out to see the present")
    return moment


@main.command("tail")
@click.argument("agent", metavar="[AGENT]", required=False)
@click.option("--since", metavar="MOMENT", help=f"Begin with the events since then: {FORMS}.")
@click.option(
    "--type",
    "types",
    metavar="TYPE",
    multiple=True,
    help="Print only events of this type, such as run.ended or notification.*; may be given several times.",
)
@click.option("--json", "as_json", is_flag=True, help="Print each event as JSON on one line.")
@click.option("--url", metavar="URL", help="The address of the service. Without it: the configured one.")
@config_option
def tail_command(
    agent: str | None,
    since: str | None,
    types: tuple[str, ...],
    as_json: bool,
    url: str | None,
    file: Path | None,
) -> None:
    """Print what happens in a running service, until Ctrl-C.

    With AGENT, the id or the name of an agent: only what happens to this agent. Times are those of this
    machine's time zone. The text that models write is printed only with --type model.delta.

    The exit code is 3 if no service answers, 4 if it is a standby, and 5 if it has lost its database. Once it
    has begun, the command goes on where it was when the service restarts.
    """
    try:
        moment = parse_moment(since, SystemClock().now()) if since is not None else None
    except InvalidMoment as error:
        raise click.UsageError(f"--since: {error}") from None
    run_command(file, partial(_tail, options=TailOptions(agent, moment, types, as_json), url=url))


def _token_command(file: Path | None) -> str:
    """Return the command that prints the operator token in the shell that started this process."""
    is_script = Path(sys.argv[0]).name == "hostsvc"
    program = [sys.argv[0]] if is_script else [sys.executable, "-m", "hostsvc"]
    return shlex.join([*program, "operator-token", *(["--config", str(file)] if file else [])])


async def _serve(config: Config, *, token_command: str | None, wait_seconds: float) -> None:
    is_text_wanted = config.log.format != "json"

    def announce(line: str) -> None:
        if is_text_wanted:
            click.echo(line)

    def on_ready(service: Service) -> None:
        if token_command and (is_text_wanted or sys.stdout.isatty()):
            click.echo(guide(service.base_url, token_command))

    await serve(config, announce, on_ready, wait_for_database_seconds=wait_seconds)


async def _tail(config: Config, *, options: TailOptions, url: str | None) -> int:
    return await tail(_address(config, url), partial(operator_token, config), options)


async def _show_status(config: Config, *, selection: Selection, watch: bool, url: str | None) -> int:
    fetch_token = partial(operator_token, config)
    return await show_status(_address(config, url), fetch_token, selection, watch=watch)


def _address(config: Config, url: str | None) -> str:
    return url.rstrip("/") if url else url_of(config.server)
