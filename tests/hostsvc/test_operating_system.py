"""The limit of open files, the connections that it leaves room for, and the memory of the process."""

import os
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from hostsvc.config import Config, ServerSettings
from hostsvc.operating_system import (
    connection_settings,
    connections_within,
    notify_systemd,
    raise_descriptor_limit,
)

MAX_LEFT_BYTES = 20 << 20

# Between two long texts stands a short one that stays, so that the heap could not shrink.
LEAVE_HOLES = """
from hostsvc.operating_system import return_large_blocks

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

if not return_large_blocks():
    raise SystemExit(2)
bytes(1_100_000)  # the first large block that is freed
before = resident()
long, short = [], []
for _ in range(100):
    long.append(b"x" * 1_000_000)
    short.append(b"x" * 5_000)
del long
print(resident() - before)
"""


@pytest.fixture
def process_limits() -> Iterator[tuple[int, int]]:
    """Return the limits of this process, and restore them afterwards."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield limits
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_soft_limit_is_raised_to_the_hard_one(process_limits: tuple[int, int]) -> None:
    hard = process_limits[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    limit = raise_descriptor_limit()
    assert limit == min(hard, 65_536)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (limit, hard)


def test_connections_leave_descriptors_for_database_and_runs() -> None:
    config = Config()
    assert connections_within(1024, config) + config.database.pool_size + config.runs.max_concurrent < 1024
    many_runs = replace(config, runs=replace(config.runs, max_concurrent=1000))
    assert connections_within(1024, many_runs) == 256


def test_lowered_maximum_is_logged() -> None:
    with capture_logs() as logged:
        settings = connection_settings(Config(), 1024)
    assert settings.max_connections == connections_within(1024, Config())
    [line] = logged
    assert (line["configured"], line["open_files"]) == (10_000, 1024)
    with capture_logs() as logged:
        assert connection_settings(Config(), 65_536).max_connections == 10_000
    assert logged == []


def test_only_https_addresses_get_strict_transport_security() -> None:
    for base_url, is_https in (("https://a.example", True), ("http://a.example", False), ("", False)):
        config = replace(Config(), server=ServerSettings(base_url=base_url))
        assert connection_settings(config, 65_536).is_https is is_https


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_freed_texts_leave_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", LEAVE_HOLES], capture_output=True, text=True, check=False)
    if done.returncode == 2:
        pytest.skip("the C library has no mallopt")
    assert int(done.stdout) < MAX_LEFT_BYTES, done.stderr


def test_systemd_is_told_at_the_socket_that_it_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notify_systemd("READY=1")  # outside a unit there is nobody to tell
    for address in (str(tmp_path / "notify"), f"@hostsvc-{os.getpid()}"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
            systemd.bind(address.replace("@", "\0", 1))
            monkeypatch.setenv("NOTIFY_SOCKET", address)
            notify_systemd("READY=1")
            assert systemd.recv(100) == b"READY=1"
