"""What the type checkers of a project that uses the client see, and what it costs to install and import."""

import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from tests.clients.process import environment
from tests.processor_time import slowness
from web.settings import VERSION

CONSUMER = Path(__file__).with_name("consumer.py")
PYRIGHT = '{"typeCheckingMode": "strict", "reportUnnecessaryTypeIgnoreComment": "error"}'
MAX_IMPORT_SECONDS = 0.06
MAX_PACKAGES = 8  # with all that any version of Python needs
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


def needed(distribution: str) -> list[str]:
    """Return what a distribution needs without extras, wherever there are processes."""
    texts = metadata.requires(distribution) or [] if distribution != "exceptiongroup" else []
    plain = [text for text in texts if "extra ==" not in text and "== 'emscripten'" not in text]
    return [re.split(r"[^\w-]", text)[0].replace("_", "-") for text in plain]


def test_library_needs_one_package_and_pulls_in_few() -> None:
    assert needed("hostsvc-client") == ["httpx2"]
    found, waiting = set(), ["httpx2"]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += needed(name)
    assert len(found) <= MAX_PACKAGES, found
