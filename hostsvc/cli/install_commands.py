"""Commands that set a service up: a first configuration and user, and a unit for systemd."""

import secrets
import sys
from collections.abc import Mapping
from functools import partial
from importlib.resources import files
from pathlib import Path
from string import Template

import click
from marshmallow import ValidationError

from hostsvc.backup import migrate_safely
from hostsvc.cli.runner import config_option, print_problem, read_config_to_serve, refuse, run_command
from hostsvc.config import Config
from hostsvc.config_reader import DEFAULT_FILE
from hostsvc.database import open_cipher_of_service, open_current_pool, open_database
from storage.errors import DatabaseRefused, NotUnique
from storage.identity.accounts import Accounts, TokenHolders
from storage.identity.api_keys import ApiKeys
from storage.ids import new_id
from storage.model import ApiKey, Organization, User
from supervisors.clock import SystemClock
from web.api.organizations.accounts import SignupBody
from web.credentials.formats import make_key
from web.credentials.passwords import Passwords

PACKAGE = Path(str(files("hostsvc")))
UNIT = Path("/etc/systemd/system/hostsvc.service")
HIDDEN = {"home", "root", "tmp"}  # by ProtectHome= and PrivateTmp= of the unit
FOR_RUNS = "# For runs of agents' own code:\n"  # what follows in the unit is for harness.kind = "process"
CLOSE_SIGNUP = 'signup = "open"  ', 'signup = "closed"'
CLOSE_SECONDS = 30  # beyond the drain, to store and close everything


@click.command("init")
@config_option
@click.option("--email", required=True, help="The address that the first user logs in with.")
@click.option("--organization", required=True, help="The name of the user's organization.")
def init_command(file: Path | None, email: str, organization: str) -> None:
    """Write a commented configuration unless there is one, and create the first user with an API key."""
    given = {"email": email, "organization_name": organization, "password": secrets.token_urlsafe(12)}
    try:
        account = SignupBody().checked(given)
    except ValidationError as error:
        refuse(*(f"{name}: {reason}" for name, (reason, *_) in error.messages_dict.items()))
    path = file or DEFAULT_FILE
    if not path.exists():
        shipped = PACKAGE / "config.toml"  # of the wheel; in a checkout it lies beside the package
        text = (shipped if shipped.exists() else PACKAGE.parent / "config.toml").read_text()
        _write(path, text.replace(*CLOSE_SIGNUP))
        click.echo(f"wrote {path}: every key with its default, but sign-up is closed")
    run_command(file, partial(_create_user, account=account))


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        refuse(f"{path} cannot be written: {error.strerror}")


async def _create_user(config: Config, *, account: Mapping[str, str]) -> None:
    now, key, email, password = SystemClock().now(), make_key(), account["email"], account["password"]
    with Passwords() as passwords:
        user = User(new_id(), email, account["name"], await passwords.hash(password, ""), 1, now)
    organization = Organization(new_id(), account["organization_name"], now)
    first_key = ApiKey(new_id(), organization.id, "first", key.prefix, True, None, now)
    async with open_database(config, may_create=True) as url:
        is_new = await migrate_safely(config.database, url, now)
        async with open_current_pool(config, url) as pool:
            if is_new:  # as long as it is empty, nothing needs to be encrypted again
                await open_cipher_of_service(config.accounts.encryption_keys, pool, now)
            try:
                await Accounts(pool, TokenHolders(pool)).insert_account(user, organization)
            except NotUnique:
                raise DatabaseRefused(f"{email} has an account: use another address, or log in") from None
            await ApiKeys(pool).insert(first_key, key.hash)
    click.echo(f"user      {email}\npassword  {password}\nAPI key   {key.text}\nThey are not shown again.")


@click.command("install-service")
@click.option("--dry-run", is_flag=True, help="Print the unit instead of writing it.")
@config_option
def install_service_command(file: Path | None, *, dry_run: bool) -> None:
    """Write a hardened unit for systemd, which runs this installation.

    The configuration is /etc/hostsvc/config.toml unless --config says otherwise; secrets are files in the
    directory `credentials` beside it.
    """
    path = (file or Path("/etc/hostsvc/config.toml")).absolute()
    config, errors = read_config_to_serve(path if path.exists() else None)
    if errors.sections:
        refuse(*errors.messages)
    for each in (program := Path(sys.executable).with_name("hostsvc"), Path(sys.executable).resolve()):
        if each.parts[1] in HIDDEN:
            print_problem(f"warning: the unit cannot see {each}: install hostsvc elsewhere, such as in /opt")
    template, _, for_runs = (PACKAGE / "hostsvc.service").read_text().partition(FOR_RUNS)
    unit = Template(template + for_runs * (config.harness.kind == "process")).substitute(
        program=program,
        directory=path.parent,
        config=path,
        stop_seconds=round(config.server.drain_seconds) + CLOSE_SECONDS,
    )
    if dry_run:
        click.echo(unit, nl=False)
        return
    _write(UNIT, unit)
    (path.parent / "credentials").mkdir(0o700, parents=True, exist_ok=True)
    click.echo(f"wrote {UNIT}; start it with: systemctl daemon-reload && systemctl enable --now hostsvc")
