"""What the tests of the process harness share."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast
from uuid import uuid4

import pytest

from hostsvc.process_harness.settings import ContainmentKind
from tests.processes import has_sandbox


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


@pytest.fixture
def sandbox() -> ContainmentKind:
    """The containment by bubblewrap; skip the test where that does not work."""
    if not has_sandbox():
        pytest.skip("bubblewrap does not work here")
    return "bubblewrap"


@pytest.fixture(params=["bubblewrap", "none"])
def kind(request: pytest.FixtureRequest) -> ContainmentKind:
    """Each containment."""
    if request.param == "bubblewrap":
        request.getfixturevalue("sandbox")
    return cast(ContainmentKind, request.param)
