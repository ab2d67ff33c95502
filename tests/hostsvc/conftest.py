"""Fixtures for the service and its commands."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """A directory outside of pytest's own, which a server started by root may not enter."""
    with tempfile.TemporaryDirectory(prefix="hostsvc-tests-") as directory:
        Path(directory).chmod(0o711)  # otherwise the service has to, and warns of it
        yield Path(directory)
