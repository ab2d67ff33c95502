"""`hostsvc` as a process: the configuration check, the service, its guide, and the demonstration."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from http.client import HTTPConnection
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.curl import environment_with_curl
from tests.git_repository import GitRepository
from tests.hostsvc.cli.shell import Shell, finished, first_line, hostsvc, inherited, refusal, started
from tests.paths import ROOT

ANY_PORT = {"HOSTSVC__SERVER__PORT": "0"}
PASTE = "Or paste into another terminal to sign up and get an API key:"


def test_check_config_names_the_file_and_the_variables(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("[server]\nport = 9000\n")
    valid = "the configuration is valid; it comes from"
    for options, origins in (
        (["--config", "mine.toml"], "mine.toml, HOSTSVC__LOG__LEVEL"),
        ([], "HOSTSVC__LOG__LEVEL"),
    ):
        done = hostsvc(tmp_path, "check-config", *options, HOSTSVC__LOG__LEVEL="debug")
        assert (done.code, done.out) == (0, f"{valid} {origins}\n"), done
    done = hostsvc(tmp_path, "check-config")
    assert (done.code, done.out) == (0, f"{valid} the defaults\n"), done


@pytest.mark.parametrize(
    "command",
    ["check-config", "migrate", "operator-token", "rotate-keys", "vacuum", "status", "serve", "demo"],
)
def test_command_refuses_unknown_key_with_one_line(tmp_path: Path, command: str) -> None:
    (tmp_path / "config.toml").write_text("[server]\nprot = 9000\n")
    line = refusal(hostsvc(tmp_path, command))
    assert line.startswith("config.toml: server.prot is unknown; known are host, port")


@pytest.mark.parametrize("command", ["check-config", "serve"])
def test_command_refuses_with_all_errors_at_once(tmp_path: Path, command: str) -> None:
    (tmp_path / "config.toml").write_text(
        "[server]\nprot = 9000\n[log]\nlevel = 'loud'\n"
        "[models.a]\nbase_url = 'http://a'\napi_key_env = 'THE_KEY'\n"
    )
    done = hostsvc(tmp_path, command, HOSTSVC__DATABASE__DATA_DIR="config.toml/data")
    assert (done.code, done.out) == (2, "")
    unknown, level, key, data_dir = done.err.splitlines()
    assert unknown.startswith("hostsvc: config.toml: server.prot is unknown")
    assert level.startswith("hostsvc: config.toml: log.level must be one of")
    assert key.startswith("hostsvc: models.a.api_key_env: the variable THE_KEY is not set")
    assert data_dir.startswith("hostsvc: database.data_dir cannot be created: ")


def test_check_config_names_the_workers_and_their_shares(tmp_path: Path) -> None:
    done = hostsvc(tmp_path, "check-config", HOSTSVC__NODE__WORKERS="2", HOSTSVC__NODE__NAME="m")
    share = "database.pool_size 5, runs.max_concurrent 50, server.max_connections 5000"
    assert done.out.splitlines()[:2] == [f"worker m/1: {share}", f"worker m/2: {share}"]


def test_check_config_finds_unreachable_repository_beside_other_errors(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(
        "[harness]\nkind = 'process'\ncommand = ['run']\nrepository = 'nowhere'\n[server]\nprot = 1\n"
    )
    done = hostsvc(tmp_path, "check-config", PATH=os.environ["PATH"])
    unknown, unreachable = done.err.splitlines()
    assert "server.prot is unknown" in unknown
    assert unreachable.startswith("hostsvc: harness.repository cannot be fetched: git ls-remote: fatal: ")
    assert done.code == 2


def test_check_config_accepts_a_reachable_repository_without_traces(tmp_path: Path) -> None:
    GitRepository.make(tmp_path / "agents")
    (tmp_path / "config.toml").write_text(
        "[harness]\nkind = 'process'\ncommand = ['run']\nrepository = 'agents'\ncontainment = 'none'\n"
    )
    done = hostsvc(tmp_path, "check-config")
    [warning] = done.err.splitlines()
    assert warning.startswith("hostsvc: warning: nothing contains runs: ")
    assert warning.endswith('(harness.containment is "none")')
    assert done.code == 0
    assert {*os.listdir(tmp_path)} == {"agents", "config.toml"}


def test_check_config_says_what_the_containment_needs(tmp_path: Path) -> None:
    GitRepository.make(tmp_path / "agents")
    (tmp_path / "config.toml").write_text(
        "[harness]\nkind = 'process'\ncommand = ['run']\nrepository = 'agents'\ncontainment = 'bubblewrap'\n"
    )
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("git", "timeout", "find", "sh", "setpriv", "prlimit"):
        (programs / name).symlink_to(shutil.which(name) or "/nowhere")
    done = hostsvc(tmp_path, "check-config", PATH=str(programs))
    assert done.code == 2
    assert "bubblewrap is not installed: install it, for example with apt-get install bubblewrap" in done.err


@pytest.mark.parametrize("code", [0, 2])
def test_check_config_warns_of_variables_that_are_no_settings(tmp_path: Path, code: int) -> None:
    (tmp_path / "config.toml").write_text("" if code == 0 else "[log]\nlevel = 1\n")
    done = hostsvc(tmp_path, "check-config", HOSTSVC_SERVER_PORT="1")
    assert done.code == code
    assert done.err.splitlines()[0] == (
        "hostsvc: warning: the variable HOSTSVC_SERVER_PORT is not a setting and has no effect; "
        "did you mean HOSTSVC__SERVER__PORT?"
    )


def test_version_is_printed(tmp_path: Path) -> None:
    done = hostsvc(tmp_path, "--version")
    assert (done.code, done.out) == (0, f"hostsvc {version('hostsvc')}\n")


def test_help_lists_every_command(tmp_path: Path) -> None:
    done = hostsvc(tmp_path, "--help")
    assert done.code == 0
    for command in ("accounts", "adapters", "check-config", "demo", "migrate", "operator-token", "pause"):
        assert f"  {command} " in done.out
    for command in (
        "doctor",
        "init",
        "install-service",
        "rotate-keys",
        "serve",
        "status",
        "unpause",
        "vacuum",
    ):
        assert f"  {command} " in done.out


def test_serve_prints_its_address_and_exits_0_on_sigterm(
    tmp_path: Path, shell: Shell, database_url: str
) -> None:
    with shell.start(tmp_path, "serve", HOSTSVC__DATABASE__URL=database_url, **ANY_PORT) as service:
        line = first_line(service)
        assert re.fullmatch(r"hostsvc: listening on http://127\.0\.0\.1:\d+", line)
        ready = HTTPConnection(line.removeprefix("hostsvc: listening on http://"))
        ready.request("GET", "/readyz")
        assert ready.getresponse().status == 200
        ready.close()
        service.terminate()
        done = finished(service)
    assert (done.code, done.out) == (0, ""), done


def test_guide_lines_create_an_account_and_a_key(tmp_path: Path, shell: Shell, database_url: str) -> None:
    with shell.start(
        tmp_path, "serve", "--guide", HOSTSVC__DATABASE__URL=database_url, **ANY_PORT
    ) as service:
        lines = [first_line(service) for _ in range(12)]
        to_paste = "\n".join(lines[lines.index(PASTE) + 1 :])
        pasted, again = (
            subprocess.run(
                ["bash", "-c", to_paste],
                env=environment_with_curl(tmp_path),
                capture_output=True,
                text=True,
                check=True,
            )
            for _ in range(2)
        )
    assert pasted.stdout == "[]", (to_paste, pasted)
    assert "user with this email already exists" in again.stderr, again


def test_demo_succeeds_and_leaves_nothing_behind(data_dir: Path) -> None:
    with started(data_dir, "demo", TMPDIR=str(data_dir)) as process:
        done = finished(process)
    assert (done.code, done.err) == (0, ""), done
    assert "one wake for 3 texts" in done.out
    assert list(data_dir.iterdir()) == []


def test_terminated_demo_leaves_nothing_behind(data_dir: Path, shell: Shell) -> None:
    with shell.start(data_dir, "demo", TMPDIR=str(data_dir)) as demo:
        assert "serves on http://127.0.0.1:" in first_line(demo)
        demo.terminate()
        done = finished(demo)
    assert (done.code, done.err) == (0, ""), done
    assert list(data_dir.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["Grace", "--at", "soon"], "Error: --at: 'soon' is no moment; write it as \"10m\", "),
        (["Grace", "--at", "2999-01-01"], "Error: --at: '2999-01-01' lies ahead; leave --at out"),
        (["--at", "10m"], "Error: --at shows one agent as it was: name an AGENT"),
        (["Grace", "--at", "10m", "--watch"], "Error: the past does not change: leave out --watch or --at"),
    ],
)
def test_status_refuses_moment_that_cannot_be_shown(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    done = hostsvc(tmp_path, "status", *arguments)

    assert done.code == 2
    assert done.err.splitlines()[-1].startswith(message)


def test_service_loads_no_heavy_library_before_it_is_needed() -> None:
    heavy = {"cryptography", "genai_prices", "httpx2", "jsonschema_rs", "openai", "pydantic"}
    code = f"import sys, hostsvc.cli.commands; print(sorted({heavy!r} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout == "[]\n"


HANGS_UP = """
import os, signal, sys
sys.path[:] = [path for path in sys.path if os.path.abspath(path) != os.getcwd()]
del sys.modules["click"]
os.kill(os.getpid(), signal.SIGHUP)
import click
"""


@pytest.mark.parametrize("program", [["-m", "hostsvc"], ["-c", "from hostsvc.__main__ import main; main()"]])
def test_hangup_during_imports_does_not_end_the_service(tmp_path: Path, program: list[str]) -> None:
    (tmp_path / "click.py").write_text(HANGS_UP)  # imported in place of the real one, which it imports
    done = subprocess.run(
        [sys.executable, *program, "serve"],
        cwd=tmp_path,
        env=inherited() | {"PYTHONPATH": str(tmp_path), "HOSTSVC__SERVER__PORT": "none"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr.count("server.port")) == (2, 1), done


def test_installed_command_ignores_early_hangups_as_well() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["scripts"]["hostsvc"] == "hostsvc.__main__:main"
