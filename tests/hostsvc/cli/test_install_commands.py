"""Commands that set a service up: the first user, and the unit for systemd."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.hostsvc.cli.shell import Shell, first_line, hostsvc, refusal
from tests.hostsvc.cli.test_database_commands import rows
from tests.paths import ROOT

SYSTEMD = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)
FOR_RUNS = {
    "HOSTSVC__HARNESS__KIND": "process",
    "HOSTSVC__HARNESS__REPOSITORY": "/srv/agents",
    "HOSTSVC__HARNESS__COMMAND": "python3,run.py",
}
INIT = ("init", "--email", "ann@example.org", "--organization", "Acme")


def test_init_writes_the_shipped_file_and_creates_a_user(
    tmp_path: Path, empty_database_url: str, shell: Shell
) -> None:
    database = {"HOSTSVC__DATABASE__URL": empty_database_url, "HOSTSVC__ACCOUNTS__ENCRYPTION_KEYS": "A" * 43}
    done = hostsvc(tmp_path, *INIT, **database)
    assert (done.code, done.err) == (0, "")
    wrote, user, password, key, _ = done.out.splitlines()
    assert wrote == "wrote config.toml: every key with its default, but sign-up is closed"
    assert user == "user      ann@example.org"
    shipped = (ROOT / "config.toml").read_text()
    assert (tmp_path / "config.toml").read_text() == shipped.replace('= "open"  ', '= "closed"')
    assert rows(empty_database_url, "SELECT rotated_at IS NOT NULL FROM encryption_key") == [(True,)]
    with shell.start(tmp_path, "serve", HOSTSVC__SERVER__PORT="0", **database) as service:
        url = first_line(service).removeprefix("hostsvc: listening on ")
        body = f'{{"email": "ann@example.org", "password": "{password.split()[1]}"}}'
        assert '"role":"owner"' in curl(f"{url}/api/organizations/auth/login/", "--json", body)
        agents = curl(f"{url}/api/cloud/agents/", "--header", f"Authorization: Bearer {key.split()[2]}")
        assert agents == "[]"


def test_closed_signup_of_init_is_valid(tmp_path: Path, empty_database_url: str) -> None:
    hostsvc(tmp_path, *INIT, HOSTSVC__DATABASE__URL=empty_database_url)
    assert tomllib.loads((tmp_path / "config.toml").read_text())["accounts"]["signup"] == "closed"


def curl(*arguments: str) -> str:
    return subprocess.run(["curl", "-s", *arguments], capture_output=True, text=True, check=True).stdout


def test_second_init_keeps_the_file_and_names_the_account(tmp_path: Path, empty_database_url: str) -> None:
    (tmp_path / "config.toml").write_text(f'[database]\nurl = "{empty_database_url}"\n')
    assert hostsvc(tmp_path, *INIT).code == 0
    assert refusal(hostsvc(tmp_path, *INIT)).startswith("ann@example.org has an account")
    assert "pool_size" not in (tmp_path / "config.toml").read_text()


@pytest.mark.parametrize(
    ("email", "organization", "config", "said"),
    [
        ("ann", "Acme", "config.toml", "email: Enter a valid email address."),
        ("ann@example.org", "", "config.toml", "organization_name: This field may not be blank."),
        ("ann@example.org", "Acme", "none/config.toml", "none/config.toml cannot be written"),
    ],
)
def test_init_refuses_what_it_cannot_do(
    tmp_path: Path, email: str, organization: str, config: str, said: str
) -> None:
    options = ("--email", email, "--organization", organization, "--config", config)
    assert refusal(hostsvc(tmp_path, "init", *options)).startswith(said)
    assert not [*tmp_path.iterdir()]


def unit_of(directory: Path, **environment: str) -> dict[str, list[str]]:
    """Return the settings of the unit, each with its values in order."""
    done = hostsvc(directory, "install-service", "--dry-run", "--config", "config.toml", **environment)
    assert done.code == 0, done
    (directory / "hostsvc.service").write_text(done.out)
    settings: dict[str, list[str]] = {}
    for line in done.out.splitlines():
        if line and line[0] not in "#[":
            name, _, value = line.partition("=")
            settings.setdefault(name, []).append(value)
    return settings


def test_unit_runs_this_installation_with_time_to_drain(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[server]\ndrain_seconds = 90\n")
    unit = unit_of(tmp_path)
    program, command, _, config, *_ = unit["ExecStart"][0].split()
    assert (Path(program).name, Path(program).exists(), command) == ("hostsvc", True, "serve")
    assert config == str(tmp_path / "config.toml")
    assert unit["LoadCredential"] == [f"hostsvc:{tmp_path / 'credentials'}"]
    assert (unit["Type"], unit["KillMode"], unit["Delegate"]) == (["notify"], ["mixed"], ["yes"])
    assert int(unit["TimeoutStopSec"][0]) > 90
    assert unit["ExecReload"] == ["/bin/kill -HUP $MAINPID"]


def test_unit_lets_bubblewrap_work_where_runs_need_it(tmp_path: Path) -> None:
    (tmp_path / "config.toml").touch()
    assert unit_of(tmp_path)["RestrictNamespaces"] == ["yes"]
    for_runs = unit_of(tmp_path, **FOR_RUNS)
    for name in ("DynamicUser", "RestrictSUIDSGID", "RestrictNamespaces", "ProtectControlGroups"):
        assert for_runs[name] == ["yes", "no"]
    assert for_runs["User"] == ["hostsvc"]
    assert for_runs["SystemCallFilter"] == ["@system-service", "@mount"]


@SYSTEMD
@pytest.mark.parametrize(("harness", "exposure"), [({}, 2.0), (FOR_RUNS, 4.0)])
def test_systemd_accepts_the_unit_and_calls_it_safe(
    tmp_path: Path, harness: dict[str, str], exposure: float
) -> None:
    (tmp_path / "config.toml").touch()
    unit_of(tmp_path, **harness)
    unit = tmp_path / "hostsvc.service"
    verified = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    assert (verified.returncode, verified.stderr) == (0, "")
    threshold = f"--threshold={exposure * 10:.0f}"
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", threshold, str(unit)]
    checked = subprocess.run(command, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout[-200:]


def test_installation_that_the_unit_cannot_see_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/home/ann/venv/bin/python")
    done = hostsvc(tmp_path, "install-service", "--dry-run", "--config", "config.toml")
    assert done.err.startswith("hostsvc: warning: the unit cannot see /home/ann/venv/bin/hostsvc: ")


def test_unit_is_written_beside_a_directory_for_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hostsvc.cli.install_commands.UNIT", tmp_path / "hostsvc.service")
    done = hostsvc(tmp_path, "install-service", "--config", "etc/config.toml")
    assert done.code == 0, done
    assert (tmp_path / "etc" / "credentials").stat().st_mode & 0o777 == 0o700
    assert f"--config {tmp_path}/etc/config.toml" in (tmp_path / "hostsvc.service").read_text()
