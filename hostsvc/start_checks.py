"""Checks of a valid configuration against this machine, before anything is started."""

import errno
import os
import socket
from collections.abc import Iterator, Mapping, Set
from pathlib import Path

from hostsvc.config import HTTP, MODELS, Config, ServerSettings
from hostsvc.process_harness.cache import HarnessRefused
from hostsvc.process_harness.machine import look_up_user, machine_errors

PRIVILEGED_PORTS = range(1, 1024)


def start_errors(config: Config, invalid: Set[str], environment: Mapping[str, str]) -> Iterator[str]:
    """Yield a message for each thing that would keep the service from starting, changing nothing.

    Sections in `invalid` have errors of their own, so nothing is derived from them (blank: from any).
    It connects to nothing, and does not try the containment of runs.
    """
    if "" in invalid:
        return
    if not invalid & {MODELS, "runs"}:
        yield from config.model_errors()
    if not invalid & {"server", "node"} and HTTP in config.node.roles:
        yield from _address_errors(config.server)
    if "cluster" not in invalid and (reason := _bind_failure(config.cluster.address, 0)):
        yield cannot_listen_for_nodes(config.cluster.address, reason)
    if "database" not in invalid and not config.database.url:
        yield from _directory_errors("database.data_dir", config.database.data_dir)
    if "harness" not in invalid and config.harness.kind == "process":
        yield from machine_errors(config.harness, environment)
        yield from _directory_errors("harness.cache_dir", config.harness.cache_dir)
        try:
            look_up_user(config.harness, nearest_existing(config.harness.cache_dir))
        except HarnessRefused as error:
            yield str(error)


def cannot_listen(server: ServerSettings, reason: str) -> str:
    """Return the message about an address on which this machine cannot listen."""
    return (
        f"cannot listen on port {server.port} on {server.host}: {reason}; correct server.host or server.port"
    )


def cannot_listen_for_nodes(address: str, reason: str) -> str:
    """Return the message about an address on which the nodes of this machine cannot listen."""
    return f"cannot listen on {address}: {reason}; correct cluster.address"


def _address_errors(server: ServerSettings) -> Iterator[str]:
    if reason := _bind_failure(server.host, server.port if server.port in PRIVILEGED_PORTS else 0):
        yield cannot_listen(server, reason)


def _bind_failure(host: str, port: int) -> str:
    """Return why nobody can listen there; blank also if somebody does, such as the service itself."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.bind((host, port))
    except OSError as error:
        return "" if error.errno == errno.EADDRINUSE else error.strerror or str(error)
    return ""


def _directory_errors(key: str, directory: Path) -> Iterator[str]:
    existing = nearest_existing(directory)
    if not existing.is_dir():
        yield f"{key} cannot be created: {existing} is not a directory; set {key} to another one"
    elif not os.access(existing, os.W_OK | os.X_OK):
        yield f"{key}: this user cannot write in {existing}; set {key} to a directory where it can"


def nearest_existing(directory: Path) -> Path:
    """Return the directory, or the nearest one above it that exists."""
    path = directory.expanduser().absolute()
    return next(each for each in (path, *path.parents) if os.path.exists(each))
