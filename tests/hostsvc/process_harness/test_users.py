"""The users that run the code: one for all runs, or one for each, and which are refused."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from hostsvc.process_harness.cache import HarnessRefused
from hostsvc.process_harness.settings import HarnessSettings
from hostsvc.process_harness.users import UnixUser, look_up_users

FIRST = 1_800_000_000
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run code as another user")


async def test_blank_user_is_the_user_of_the_service(tmp_path: Path) -> None:
    users = look_up_users(HarnessSettings(), tmp_path, 2)
    async with users.lend() as first, users.lend() as second:
        assert first == second == UnixUser()
    assert first.owner is None
    assert first.is_root == (os.geteuid() == 0)


@as_root
async def test_each_run_has_a_user_of_its_own(workspace: Path) -> None:
    users = look_up_users(HarnessSettings(first_user_id=FIRST), workspace, 2)
    async with users.lend() as first, users.lend() as second:
        assert [first.owner, second.owner] == [(FIRST, FIRST), (FIRST + 1, FIRST + 1)]
        third = asyncio.ensure_future(users.lend().__aenter__())
        await asyncio.sleep(0)
        assert not third.done()
    assert (await third).uid in {FIRST, FIRST + 1}


@as_root
@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({"user": "nobody", "first_user_id": FIRST}, "harness.user and harness.first_user_id exclude each"),
        ({"first_user_id": 65000}, "user id 65534 belongs to nobody: set harness.first_user_id to the first"),
        ({"user": "nobody-by-this-name"}, "there is no user nobody-by-this-name"),
    ],
)
def test_users_that_cannot_run_code_are_refused(
    workspace: Path, fields: dict[str, Any], refusal: str
) -> None:
    with pytest.raises(HarnessRefused, match=f"^{refusal}"):
        look_up_users(HarnessSettings(**fields), workspace, 1000)


@as_root
def test_users_that_cannot_enter_the_cache_are_refused(workspace: Path) -> None:
    closed = workspace / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(HarnessRefused, match=rf"^user {FIRST} cannot enter {closed}: set another harness"):
        look_up_users(HarnessSettings(first_user_id=FIRST), closed, 2)


def test_users_of_single_runs_need_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(HarnessRefused, match=r"start as root, or unset harness\.first_user_id"):
        look_up_users(HarnessSettings(first_user_id=FIRST), tmp_path, 2)
