"""Fixtures for commands: a shell, and the logging configuration as it was before."""

import logging
from collections.abc import Iterator

import pytest
import structlog

from tests.forked_processes import ForkServer
from tests.hostsvc.cli.shell import Shell


@pytest.fixture
def shell(fork_server: ForkServer | None) -> Shell:
    return Shell(fork_server)


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    """Undo what a command that runs in this process does to logging."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    root.setLevel(level)
