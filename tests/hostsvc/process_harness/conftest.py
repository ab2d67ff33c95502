"""What the tests of the process harness share."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import pytest

from tests.hostsvc.process_harness.specs import containment_fields


@pytest.fixture
def mark() -> str:
    """A word in the environment of all processes of one test."""
    return uuid4().hex


@pytest.fixture
def workspace() -> Iterator[Path]:
    """A directory that other users can enter, unlike `tmp_path`."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


slow = pytest.mark.slow


@pytest.fixture(
    params=[
        pytest.param("namespace", marks=slow),
        "namespace with users",
        pytest.param("user", marks=slow),
        "cgroup",
    ]
)
def contained(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The fields of a process in each containment that this machine offers."""
    return containment_fields(request.param)
