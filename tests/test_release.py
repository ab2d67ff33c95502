"""The release: one version everywhere, and distributions that run without the checkout."""

import ast
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from hostsvc.cli.commands import main
from tests.paths import ROOT
from web.app import ROUTES
from web.openapi.document import build_document
from web.settings import VERSION

PACKAGES = ("hostsvc", "web", "supervisors", "storage")
# Parts of the interfaces of aiohttp (the first two), aiopg and openai, which depend on them.
INTERFACES = {"multidict", "yarl", "psycopg2", "httpx2"}
INSTALLED = pytest.mark.xdist_group("installed wheel")  # it is built and installed once
# What programs, and pip in particular, need to know of this machine.
PASSED_ON = re.compile("PATH|HOME|PIP_.*|SSL_CERT_.*|REQUESTS_CA_BUNDLE|.*_(proxy|PROXY)")
LIST_MODULES = """
import importlib.metadata, json, pkgutil, sys
import hostsvc, web, supervisors, storage
for package in (hostsvc, web, supervisors, storage):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if module.name != "hostsvc.__main__":
            __import__(module.name)
files = {name: module.__file__ for name, module in sys.modules.items() if name.split(".")[0] in sys.argv[1:]}
print(json.dumps([importlib.metadata.version("hostsvc"), files]))
"""


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """Run a command without the variables that could lead it to the checkout. Return its output."""
    finished = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={name: value for name, value in os.environ.items() if PASSED_ON.fullmatch(name)} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
    )
    assert finished.returncode == 0, finished.stdout
    return finished.stdout


def locked_versions() -> str:
    """Return requirements.lock as constraints for pip. It refuses ours, which has no hash, if others have."""
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    return "\n".join(line.removesuffix("\\") for line in lines if not line.startswith((" ", "#")))


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    """Yield a directory outside the checkout, which a server started by root can enter."""
    with tempfile.TemporaryDirectory(prefix="hostsvc-tests-") as name:
        yield Path(name)


@pytest.fixture(scope="module")
def wheel(directory: Path) -> Path:
    """Build the sdist from the checkout, and the wheel from the unpacked sdist alone."""
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", directory / "dist", cwd=ROOT)
    (sdist,) = (directory / "dist").glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(directory / "source", filter="data")
    (source,) = (directory / "source").iterdir()
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", directory / "dist", cwd=source)
    (wheel,) = (directory / "dist").glob("*.whl")
    return wheel


@dataclass(frozen=True, slots=True)
class Installed:
    """An installation by pipx: the folder of the commands for users, and the Python behind them."""

    commands: Path
    python: Path


@pytest.fixture(scope="module")
def installed(directory: Path, wheel: Path) -> Installed:
    """Install the wheel as the README says, with its dependencies in the locked versions."""
    commands, home = directory / "bin", directory / "pipx"
    constraints = directory / "constraints.txt"
    constraints.write_text(locked_versions())
    try:
        run(
            *(sys.executable, "-m", "pipx", "install", "--backend", "pip", wheel),
            f"--pip-args=--retries 1 --constraint {constraints}",
            cwd=directory,
            PIP_NO_COMPILE="1",  # most modules are never imported
            PIPX_HOME=str(home),
            PIPX_BIN_DIR=str(commands),
            PIPX_MAN_DIR=str(directory / "man"),
        )
    except (AssertionError, subprocess.TimeoutExpired) as error:
        pytest.fail(f"cannot install the wheel; this test needs the package index that pip uses\n{error}")
    return Installed(commands, home / "venvs" / "hostsvc" / "bin" / "python")


def test_version_is_the_same_everywhere() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert importlib.metadata.version("hostsvc") == version, "install the checkout again: rm .venv/.installed"
    assert CliRunner().invoke(main, ["--version"]).output == f"hostsvc {version}\n"
    assert build_document(ROUTES)["info"]["version"] == version
    assert version == VERSION, "of /status/ and /metrics"
    changelog, release = (ROOT / "CHANGELOG.md").read_text(), version.removesuffix(".dev0")
    is_released = release == version
    assert (f"\n## [{release}] - 20" in changelog) == is_released


def test_imported_packages_are_declared() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    names = {normalized(re.split(r"[^A-Za-z0-9_.-]", line)[0]) for line in declared}
    providers = importlib.metadata.packages_distributions()
    foreign = imported_modules() - sys.stdlib_module_names - INTERFACES - {*PACKAGES, "_typeshed"}
    assert {one for one in foreign if names.isdisjoint(map(normalized, providers[one]))} == set()


def normalized(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def imported_modules() -> set[str]:
    """Return the top-level modules that the packages import."""
    modules: set[str] = set()
    for file in (file for package in PACKAGES for file in (ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                modules |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                modules.add(node.module.partition(".")[0])
    return modules


@pytest.mark.slow
@INSTALLED
def test_installation_adds_one_command(installed: Installed) -> None:
    assert [command.name for command in installed.commands.iterdir()] == ["hostsvc"]


@pytest.mark.slow
@INSTALLED
def test_installed_wheel_contains_every_module(installed: Installed, directory: Path, wheel: Path) -> None:
    output = run(installed.python, "-c", LIST_MODULES, *PACKAGES, cwd=directory)
    version, files = json.loads(output)
    assert f"hostsvc-{version}-" in wheel.name
    shipped = {str(file.relative_to(ROOT)) for name in PACKAGES for file in (ROOT / name).rglob("*.py")}
    found = {file.partition("/site-packages/")[2] for file in files.values() if file}
    assert found == shipped - {"hostsvc/__main__.py"}
    assert all(file is None or file.startswith(str(directory)) for file in files.values())


@pytest.mark.slow
@INSTALLED
def test_installed_wheel_is_set_up_and_serves(installed: Installed, directory: Path) -> None:
    home = directory / "service"
    home.mkdir()
    home.chmod(0o711)
    hostsvc = installed.commands / "hostsvc"
    run(hostsvc, "init", "--email", "ann@example.org", "--organization", "Acme", cwd=home)
    assert 'signup = "closed"' in (home / "config.toml").read_text()
    assert "FAILED" not in run(hostsvc, "doctor", cwd=home)
    unit = run(hostsvc, "install-service", "--dry-run", cwd=home)
    assert f"ExecStart={installed.python.parent}/hostsvc serve" in unit
    with subprocess.Popen(
        [hostsvc, "serve"],
        cwd=home,
        env={"PATH": os.environ["PATH"], "HOSTSVC__SERVER__PORT": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as service:
        assert service.stdout is not None
        url = service.stdout.readline().split()[-1]
        assert "<title>" in run("curl", "-s", f"{url}/console/", cwd=home)
        assert "ok" in run("curl", "-s", f"{url}/healthz", cwd=home)
        service.terminate()
        assert service.wait() == 0


@pytest.mark.slow
@INSTALLED
def test_installed_wheel_runs_the_demo(installed: Installed, directory: Path) -> None:
    home = directory / "home"
    home.mkdir()
    version = run(installed.commands / "hostsvc", "--version", cwd=home)
    assert version == f"hostsvc {VERSION}\n"
    output = run(installed.commands / "hostsvc", "demo", cwd=home, TMPDIR=str(home))
    assert "one wake for 3 texts" in output
    assert list(home.iterdir()) == []
