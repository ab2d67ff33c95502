"""What this process takes from the operating system: standard streams, descriptors and memory."""

import ctypes
import gc
import os
import resource
import socket
import sys

import structlog

from hostsvc.config import Config
from hostsvc.process_harness.network import MAX_CONNECTIONS
from web.settings import ConnectionSettings

MAX_DESCRIPTORS = 65_536
RESERVED = (
    128  # for the embedded server, the beat, the doorbell, webhooks, files, and the operator's connections
)
PER_RUN = 4  # a model call, or the pipes and handles of a process
PER_CUT_OFF_RUN = 2 * MAX_CONNECTIONS  # for what is passed on between a run and this service

log = structlog.get_logger()

ALLOCATIONS_BETWEEN_COLLECTIONS = 20_000
LARGE_BYTES = 131_072

# Parameters of mallopt, from malloc.h of the GNU C library.
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3


def notify_systemd(state: str) -> None:
    """Tell systemd a state such as READY=1, if the service is a unit with Type=notify."""
    if address := os.environ.get("NOTIFY_SOCKET", ""):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(state.encode(), "\0" + address[1:] if address[0] == "@" else address)


def open_missing_streams() -> None:
    """Open the null device as each standard stream that the parent has closed.

    Otherwise a socket would take its number, and libuv aborts the process when it closes such a socket.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 -- for the life of the process


def raise_descriptor_limit() -> int:
    """Raise the soft limit, usually 1,024, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= MAX_DESCRIPTORS:
        return MAX_DESCRIPTORS
    limit = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    return limit


def connection_settings(config: Config, descriptors: int) -> ConnectionSettings:
    """Return the limits on connections for a process that may open so many files."""
    maximum = min(config.server.max_connections, connections_within(descriptors, config))
    if maximum < config.server.max_connections:
        log.warning(
            "server.max_connections lowered to what the limit of open files allows; raise the limit for more",
            max_connections=maximum,
            configured=config.server.max_connections,
            open_files=descriptors,
        )
    return ConnectionSettings(
        max_connections=maximum,
        trusted_proxies=config.server.trusted_proxies,
        is_https=config.server.base_url.startswith("https://"),
        has_access_log=config.log.access,
    )


def connections_within(descriptors: int, config: Config) -> int:
    """Return how many connections leave enough for the database and for runs; at least a quarter of all."""
    per_run = PER_RUN + (PER_CUT_OFF_RUN if config.harness.network == "service" else 0)
    reserved = RESERVED + config.database.pool_size + per_run * config.runs.max_concurrent
    return max(descriptors - reserved, descriptors // 4)


def tune_garbage_collection() -> None:
    """Exclude the objects alive now from collections, and collect seldom: requests leave few cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(ALLOCATIONS_BETWEEN_COLLECTIONS)


def return_large_blocks() -> bool:
    """Make the C library return each large block to the system when it is freed.

    By default the GNU C library stops doing so once the first large block is freed: it raises its threshold
    to the size of that block. Then texts of a megabyte leave holes among small ones, and the memory of the
    process stays at its peak. Return False if the C library is another one, which may need no such setting.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(M_MMAP_THRESHOLD, LARGE_BYTES) and mallopt(M_TRIM_THRESHOLD, LARGE_BYTES))
