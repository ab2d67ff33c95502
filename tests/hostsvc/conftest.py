"""Fixtures for the service and its commands."""

import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """A directory outside of pytest's own, which a server started by root may not enter."""
    with tempfile.TemporaryDirectory(prefix="hostsvc-tests-") as directory:
        Path(directory).chmod(0o711)  # otherwise the service has to, and warns of it
        yield Path(directory)


@pytest.fixture(autouse=True)
def restored_logging(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Undo what a command that runs in this process does to logging. A cached logger would keep it."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    configure = structlog.configure

    def configure_uncached(**options: Any) -> None:
        configure(**options | {"cache_logger_on_first_use": False})

    monkeypatch.setattr(structlog, "configure", configure_uncached)
    yield
    structlog.reset_defaults()
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    root.setLevel(level)
