"""What the machine offers: the user of runs, the sandbox, control groups, and clear refusals."""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

from hostsvc.process_harness import machine
from hostsvc.process_harness.cache import HarnessRefused
from hostsvc.process_harness.machine import (
    ALLOW,
    CONTROLLERS,
    NEEDS_USER,
    NOT_INSTALLED,
    choose_containment,
    contain_here,
    delegated_group,
    describe_containment,
    look_up_user,
    machine_errors,
    prepare_group,
)
from hostsvc.process_harness.sandbox import Containment, UnixUser
from hostsvc.process_harness.settings import ContainmentKind, HarnessSettings, Network
from tests.hostsvc.process_harness.specs import some_user

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run code as another user")
ENVIRONMENT = {"PATH": os.defpath}


@pytest.fixture
def bare_path(tmp_path: Path) -> dict[str, str]:
    """An environment in which bubblewrap is not installed."""
    return {"PATH": str(tmp_path)}


def test_blank_user_is_the_user_of_the_service(tmp_path: Path) -> None:
    user = look_up_user(HarnessSettings(), tmp_path)
    assert user == UnixUser()
    assert user.owner is None


@as_root
@pytest.mark.parametrize(
    ("name", "refusal"),
    [
        ("nobody-by-this-name", "there is no user nobody-by-this-name: create it, or correct harness.user"),
        ("root", "root is root, and runs must not be: set harness.user to another user"),
    ],
)
def test_user_that_cannot_run_code_is_refused(workspace: Path, name: str, refusal: str) -> None:
    with pytest.raises(HarnessRefused, match=f"^{refusal}"):
        look_up_user(HarnessSettings(user=name), workspace)


@as_root
def test_user_that_cannot_enter_the_cache_is_refused(workspace: Path) -> None:
    closed = workspace / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(HarnessRefused, match=f"^nobody cannot enter {closed}: set another harness"):
        look_up_user(HarnessSettings(user="nobody"), closed)


def test_other_user_needs_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(HarnessRefused, match=r"start as root, or unset harness\.user"):
        look_up_user(HarnessSettings(user="nobody"), tmp_path)


@pytest.mark.parametrize("containment", ["auto", "bubblewrap"])
@pytest.mark.parametrize("network", ["full", "service"])
async def test_sandbox_is_chosen_where_it_works(
    sandbox: ContainmentKind, containment: str, network: Network
) -> None:
    settings = HarnessSettings(containment=containment, network=network)
    chosen = await choose_containment(settings, some_user(), ENVIRONMENT)
    assert (chosen.kind, chosen.network, chosen.reason) == (sandbox, network, "")
    assert describe_containment(chosen).startswith("bubblewrap contains each run; ")


async def test_missing_sandbox_is_refused_or_named(bare_path: dict[str, str]) -> None:
    chosen = await choose_containment(HarnessSettings(), some_user(), bare_path)
    assert chosen == Containment("none", reason=NOT_INSTALLED)
    assert NOT_INSTALLED in describe_containment(chosen)
    refused: dict[str, Any] = {"containment": "bubblewrap"}
    for settings in (refused, {"network": "service"}, {"containment": "none", "network": "service"}):
        with pytest.raises(HarnessRefused, match="bubblewrap"):
            await choose_containment(HarnessSettings(**settings), some_user(), bare_path)


@as_root
async def test_code_of_root_is_not_contained(sandbox: ContainmentKind) -> None:
    with pytest.raises(HarnessRefused, match=f"^{NEEDS_USER}; or set harness.containment to"):
        await contain_here(HarnessSettings(containment=sandbox), ENVIRONMENT)


async def test_failure_of_bubblewrap_is_told_with_what_to_do() -> None:
    """Not in pytest's tmp_path, whose parents each start of pytest closes to the account of the program."""
    settings = HarnessSettings(containment="bubblewrap")
    with tempfile.TemporaryDirectory(prefix="hostsvc-tests-") as directory:
        broken = Path(directory) / "bwrap"
        broken.write_text("#!/bin/sh\necho bwrap: No permissions to create new namespace; exit 1\n")
        for path in (broken, broken.parent):
            path.chmod(0o755)
        with pytest.raises(HarnessRefused) as refused:
            await choose_containment(settings, some_user(), {"PATH": f"{directory}:{os.defpath}"})
    failure = "exit code 1: bwrap: No permissions to create new namespace"
    assert str(refused.value).startswith(f"bubblewrap does not work here ({failure}): {ALLOW}")


def test_missing_programs_are_named(bare_path: dict[str, str]) -> None:
    errors = list(machine_errors(HarnessSettings(network="service"), bare_path))
    named = [error.split()[0] for error in errors]
    assert named == ["git", "timeout", "find", "sh", "setpriv", "prlimit", "nsenter"]
    assert errors[0] == 'git is not on the PATH: install it, or set harness.kind to "builtin"'
    if shutil.which("git") and shutil.which("prlimit"):
        assert list(machine_errors(HarnessSettings(), os.environ)) == []


def test_control_group_without_controllers_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "_own_group", lambda: tmp_path)
    assert delegated_group() is None
    (tmp_path / "cgroup.controllers").write_text("cpu pids")
    assert delegated_group() is None
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids")
    assert delegated_group() == tmp_path
    assert "control groups limit" in describe_containment(Containment("bubblewrap", groups=tmp_path))


def test_delegated_control_group_is_prepared_once(tmp_path: Path) -> None:
    """A plain directory stands for the group: few machines delegate one to tests."""
    (tmp_path / "cgroup.type").write_text("domain")
    (tmp_path / "cgroup.subtree_control").write_text("")
    for name in ("run-left", "run-of-another-worker"):
        (tmp_path / name).mkdir()
    prepare_group(tmp_path, ["left", "gone"])
    enabled = (tmp_path / "cgroup.subtree_control").read_text()
    assert sorted(enabled.split()) == [f"+{name}" for name in sorted(CONTROLLERS)]
    assert (tmp_path / "service/cgroup.procs").read_text() == str(os.getpid())
    assert not (tmp_path / "run-left").exists()
    assert (tmp_path / "run-of-another-worker").exists(), "it may be about to enter its group"
