"""A server of a test's own, for what a test must not do to the shared one."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostsvc.embedded_postgres import EmbeddedPostgres


@pytest.fixture
def own_server() -> Iterator[EmbeddedPostgres]:
    """Yield a server that is not running, which a test may start, stop and configure."""
    # Not pytest's own directory: a server started by root could not pass through its parents.
    data_dir = Path(tempfile.mkdtemp(prefix="hostsvc-tests-"))
    server = EmbeddedPostgres(data_dir)
    yield server
    server.stop()
    shutil.rmtree(data_dir)
