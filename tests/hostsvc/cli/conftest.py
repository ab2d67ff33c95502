"""Fixtures for commands: a shell, and a time zone."""

import time
from collections.abc import Iterator

import pytest

from tests.forked_processes import ForkServer
from tests.hostsvc.cli.shell import Shell


@pytest.fixture
def shell(fork_server: ForkServer | None) -> Shell:
    return Shell(fork_server)


@pytest.fixture
def vienna(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make Vienna the time zone of this machine."""
    monkeypatch.setenv("TZ", "Europe/Vienna")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()
