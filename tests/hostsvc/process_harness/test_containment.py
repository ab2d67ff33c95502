"""The choice of a containment: the first that works, and clear refusals of those that do not."""

import os
import signal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from hostsvc.process_harness.cache import HarnessRefused
from hostsvc.process_harness.containment import Containment, choose_containment, own_control_group
from hostsvc.process_harness.kept_process import ProcessSpec, open_kept_process
from hostsvc.process_harness.settings import HarnessSettings
from hostsvc.process_harness.users import RunUsers, UnixUser, look_up_users
from tests.hostsvc.process_harness.specs import NOBODY, UNUSED_USER, python
from tests.processes import content, marked

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="what another user may do differs by machine")

SHARED = RunUsers((UnixUser(NOBODY, NOBODY),), shared=True)
STAYS = "import time; open('home/ready', 'w').write('\\n'); time.sleep(600)"


@pytest.fixture
def trial(workspace: Path) -> ProcessSpec:
    """A process that does nothing."""
    return ProcessSpec(command=(), directory="/", home=str(workspace), environment={}, input="")


async def choose(trial: ProcessSpec, users: RunUsers, **settings: Any) -> Containment:
    return await choose_containment(HarnessSettings(**settings), users, trial)


async def test_namespace_is_chosen_where_groups_have_no_controllers(trial: ProcessSpec) -> None:
    chosen = await choose(trial, SHARED)
    assert chosen.kind in {"namespace", "cgroup"}
    if chosen.kind == "namespace":
        assert chosen.has_own_user == chosen.new_user


async def test_code_of_root_keeps_its_privileges_in_a_namespace(trial: ProcessSpec) -> None:
    service = RunUsers((UnixUser(),), shared=True)
    chosen = await choose(trial, service, containment="namespace")
    assert chosen == Containment("namespace")


@pytest.mark.parametrize("kind", ["namespace", "user", "none"])
async def test_configured_containment_is_chosen(workspace: Path, trial: ProcessSpec, kind: str) -> None:
    users = look_up_users(HarnessSettings(first_user_id=UNUSED_USER), workspace, 1)
    assert (await choose(trial, users, containment=kind)).kind == kind


@pytest.mark.skipif(own_control_group() is None, reason="no cgroup v2 is writable")
async def test_configured_control_group_is_left_by_nothing(
    workspace: Path, trial: ProcessSpec, mark: str
) -> None:
    chosen = await choose(trial, SHARED, containment="cgroup")
    assert chosen.groups is not None
    spec = chosen.apply(python(workspace, mark, STAYS, uid=NOBODY, gid=NOBODY), UUID(int=1))
    async with open_kept_process(spec) as process:
        await content(workspace / "home/ready")
        # As if the keeper were gone: what is left is the matter of the next start.
        os.kill(process._keeper.pid, signal.SIGSTOP)
        assert await choose(trial, SHARED, containment="cgroup") == chosen
        assert marked(mark) == []
        os.kill(process._keeper.pid, signal.SIGKILL)
    assert list(chosen.groups.glob("*/")) == []
    chosen.groups.rmdir()


async def test_processes_left_to_users_of_runs_are_killed(
    workspace: Path, trial: ProcessSpec, mark: str
) -> None:
    users = look_up_users(HarnessSettings(first_user_id=UNUSED_USER), workspace, 2)
    spec = python(workspace, mark, STAYS, uid=UNUSED_USER + 1, gid=UNUSED_USER + 1)
    async with open_kept_process(spec):
        await content(workspace / "home/ready")
        await choose(trial, users)
        assert marked(mark) == []


@pytest.mark.parametrize(
    ("users", "settings", "refusal"),
    [
        (
            RunUsers((UnixUser(),), shared=True),
            {"containment": "cgroup"},
            'harness.containment cannot be had with containment "cgroup": it needs harness.user',
        ),
        (SHARED, {"containment": "user"}, ".* it needs harness.first_user_id"),
        (
            SHARED,
            {"containment": "user", "network": "service"},
            'harness.network "service" cannot be had with containment "user": only namespaces can',
        ),
    ],
)
async def test_impossible_containment_is_refused(
    trial: ProcessSpec, users: RunUsers, settings: dict[str, Any], refusal: str
) -> None:
    with pytest.raises(HarnessRefused, match=f"^{refusal}"):
        await choose(trial, users, **settings)
