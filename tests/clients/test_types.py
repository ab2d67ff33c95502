"""What the type checkers of a project that uses the client see, and what it costs to install and import."""

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.clients.process import environment
from tests.processor_time import slowness
from web.settings import VERSION

CONSUMER = Path(__file__).with_name("consumer.py")
PYRIGHT = '{"typeCheckingMode": "strict", "reportUnnecessaryTypeIgnoreComment": "error"}'
MAX_IMPORT_SECONDS = 0.06
STAND_INS = {"typing-extensions", "exceptiongroup"}  # for what newer versions of Python have
IMPORT = """
import sys, time
begun = time.process_time()
from hostsvc_client import Hostsvc, errors
print(time.process_time() - begun)
assert not {"httpx2", "asyncio", "pydantic", "hostsvc_client.models"} & sys.modules.keys()
"""


def test_consumer_passes_mypy_strict(tmp_path: Path) -> None:
    copy(tmp_path)
    check(tmp_path, "mypy", "--strict", "consumer.py")


def test_consumer_passes_pyright_strict(tmp_path: Path) -> None:
    copy(tmp_path)
    (tmp_path / "pyrightconfig.json").write_text(PYRIGHT)
    check(tmp_path, "basedpyright", "--pythonpath", sys.executable, "consumer.py")


def copy(directory: Path) -> None:
    (directory / "consumer.py").write_text(CONSUMER.read_text())


def check(directory: Path, *command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=directory, capture_output=True, text=True, env=environment()
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_import_is_fast_and_loads_neither_library_nor_models() -> None:
    """In processor time, as on a machine that is not busy; the first of several compiles."""
    command = [sys.executable, "-c", IMPORT]
    kept = environment()
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    seconds = [
        float(subprocess.run(command, capture_output=True, text=True, check=True, env=kept).stdout)
        for _ in range(4)
    ]
    assert min(seconds) / slowness() < MAX_IMPORT_SECONDS, seconds


def test_client_has_the_version_of_the_service() -> None:
    assert metadata.version("hostsvc-client") == VERSION


def needed(distribution: str, python: str) -> set[str]:
    """Return what a distribution needs without extras, and what that needs, under a version of Python."""
    environment = {"python_version": python, "python_full_version": f"{python}.0", "extra": ""}
    found: set[str] = set()
    for text in metadata.requires(distribution) or []:
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate(environment):
            found |= {requirement.name.replace("_", "-")}
    below = [needed(name, python) for name in found if name not in STAND_INS]
    return found.union(*below)


@pytest.mark.parametrize(("python", "count"), [("3.10", 8), ("3.11", 7), ("3.14", 7), ("3.15", 6)])
def test_library_pulls_in_httpx2_and_what_that_needs(python: str, count: int) -> None:
    """Six packages, and before Python 3.15 and 3.11 one more each for what newer ones have built in."""
    found = needed("hostsvc-client", python)
    assert found == {"httpx2", *needed("httpx2", python)}
    assert len(found) == count, found
