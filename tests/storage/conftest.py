"""A server of a test's own, for what one that is shared must not be asked."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostsvc.embedded_postgres import EmbeddedPostgres


@pytest.fixture
def own_server() -> Iterator[EmbeddedPostgres]:
    """A server that has not been started, and that a test may start, stop and set up."""
    # Not pytest's own directory: it takes away the passage that a server started by root needs.
    data_dir = Path(tempfile.mkdtemp(prefix="hostsvc-tests-"))
    server = EmbeddedPostgres(data_dir)
    yield server
    server.stop()
    shutil.rmtree(data_dir)
