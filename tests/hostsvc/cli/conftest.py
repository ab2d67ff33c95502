"""Fixtures for commands: a data directory, and the logging configuration as it was before."""

import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from tests.forked_processes import ForkServer
from tests.hostsvc.cli.shell import Shell


@pytest.fixture
def shell(fork_server: ForkServer | None) -> Shell:
    return Shell(fork_server)


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """A directory outside of pytest's own, which a server started by root may not enter."""
    with tempfile.TemporaryDirectory(prefix="hostsvc-tests-") as directory:
        Path(directory).chmod(0o711)  # otherwise the service has to, and warns of it
        yield Path(directory)


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
