"""`hostsvc doctor`: what this machine and the services around it are like, one line each."""

import os
import resource
import shutil
import tempfile
from pathlib import Path

import aiohttp
import aiosmtplib
import click

from hostsvc.cli.runner import USER_ERRORS, error_message
from hostsvc.config import Config, ConfigError
from hostsvc.database import open_database
from hostsvc.operating_system import connections_within
from hostsvc.process_harness.machine import contain_here, describe_containment
from hostsvc.start_checks import nearest_existing
from storage.postgres.connections import connect
from storage.postgres.migrations import check
from supervisors.clock import SystemClock
from supervisors.policy.explanations import why_instance_paused

MAX_CLOCK_SECONDS = 1.0
MIN_FREE_GB = 2
SELECT_SERVER = """
SELECT current_setting('server_version') AS version, clock_timestamp() AS now,
    has_schema_privilege('public', 'CREATE') AS may_create,
    (SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = to_regclass('event')) AS is_owner
"""
SELECT_PAUSE = "SELECT paused_at, paused_because FROM instance WHERE paused_at IS NOT NULL"


async def examine(config: Config) -> int:
    """Print a line for each thing that the service needs, and what to do if something is wrong."""
    states = {"ok"}
    for look in (_database, _signup, _descriptors, _disk, _harness, _models, _mail):
        name, state = look.__name__[1:], "FAILED"
        try:
            text, state = await look(config), "ok"
        except (aiohttp.ClientError, aiosmtplib.SMTPException, TimeoutError) as error:
            text = f"{error or type(error).__name__}: correct [{name}], or let this machine reach it"
        except USER_ERRORS as error:
            text = error_message(error, config)
        states.add(state)
        click.echo(f"{name:<12} {state:<7} {text}")
    return len(states) - 1


async def _database(config: Config) -> str:
    async with open_database(config) as url, connect(url) as connection:
        [server] = await connection.fetch(SELECT_SERVER)
        clock = (server["now"] - SystemClock().now()).total_seconds()
        if not server["may_create"]:
            raise ConfigError("the role may not create tables: GRANT CREATE ON SCHEMA public TO it")
        if server["is_owner"] is False:
            raise ConfigError("another role owns the tables: connect as that one, or GRANT it to this one")
        pending = await check(url)
        paused = [] if pending else await connection.fetch(SELECT_PAUSE)
    for at, because in paused:
        raise ConfigError(why_instance_paused(at, because))
    if abs(clock) > MAX_CLOCK_SECONDS:
        raise ConfigError(f"its clock differs from this machine's by {clock:.1f} s: let NTP set both")
    schema = f"{len(pending)} migrations that `hostsvc serve` applies" if pending else "the schema is current"
    return f"PostgreSQL {server['version']}, {schema}, the clocks agree within {abs(clock):.3f} s"


async def _signup(config: Config) -> str:
    if config.accounts.signup == "closed":
        return "closed: people come by invitation"
    return 'open to everybody who reaches the service; accounts.signup = "closed" ends that'


async def _descriptors(config: Config) -> str:
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    connections = connections_within(limit, config)
    if connections < config.server.max_connections:
        raise ConfigError(f"{limit} files leave {connections} connections: raise ulimit -n, or LimitNOFILE=")
    return f"{limit} files may be open"


async def _disk(config: Config) -> str:
    path = nearest_existing(Path(tempfile.gettempdir()) if config.database.url else config.database.data_dir)
    gigabytes = shutil.disk_usage(path).free >> 30
    if gigabytes < MIN_FREE_GB:
        raise ConfigError(f"{path} has {gigabytes} GB left: make room, or shorten [retention]")
    return f"{path} has {gigabytes} GB left"


async def _harness(config: Config) -> str:
    if config.harness.kind == "builtin":
        return "builtin: agents run no code of their own"
    containment = await contain_here(config.harness, os.environ)
    if containment.kind == "none" and config.harness.containment != "none":
        raise ConfigError(describe_containment(containment))
    return describe_containment(containment)


async def _models(config: Config) -> str:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(10), trust_env=True) as session:
        for name, provider in config.models.items():
            headers = {"Authorization": f"Bearer {config.model_keys.get(name, '')}"}
            async with session.get(f"{provider.base_url}/models", headers=headers) as answer:
                if answer.status in {401, 403}:
                    raise ConfigError(f"{name} refuses the key in {provider.api_key_env}: set another one")
    return f"{', '.join(config.models)} answered" if config.models else "none is configured"


async def _mail(config: Config) -> str:
    if not config.mail.host:
        return "none is sent, because mail.host is blank"
    async with aiosmtplib.SMTP(**config.mail.options()):
        return f"{config.mail.host} takes it"
