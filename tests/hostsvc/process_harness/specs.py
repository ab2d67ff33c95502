"""Processes for the tests of the keeper, and the containments that this machine offers."""

import asyncio
import os
import shutil
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from hostsvc.process_harness.containment import own_control_group
from hostsvc.process_harness.kept_process import KeptProcess, ProcessEnd, ProcessSpec, open_kept_process

MARK = "MARK_OF_THE_TEST"
NOBODY = 65534
STOP_SECONDS = 20.0
# The interpreter of the tests may stand in a directory of root.
SYSTEM_PYTHON = shutil.which("python3", path=os.defpath)
UNUSED_USER = 1_900_000_000 + 10 * os.getpid()  # and the next nine; parallel tests have others

# One child in the group, and one that left it with a session of its own and is an orphan.
LEAVES_CHILDREN = """
import os, time
if os.fork() == 0:
    time.sleep(600)
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    open("home/daemon", "w").write(f"{os.getpid()}\\n")
    time.sleep(600)
while not os.path.exists("home/daemon"):
    time.sleep(0.01)
"""


def spec_of(workspace: Path, mark: str, *command: str, **fields: Any) -> ProcessSpec:
    home = workspace / "home"
    home.mkdir()
    if "uid" in fields:
        os.chown(home, fields["uid"], -1)
    environment = {"PATH": os.environ["PATH"], MARK: mark}
    options = {"input": "", "directory": str(workspace), "environment": environment, **fields}
    return ProcessSpec(command=command, home=str(home), **options)


def python(workspace: Path, mark: str, code: str, **fields: Any) -> ProcessSpec:
    interpreter = str(SYSTEM_PYTHON) if "uid" in fields else sys.executable
    return spec_of(workspace, mark, interpreter, "-S", "-c", code, **fields)


async def run(spec: ProcessSpec) -> ProcessEnd:
    """Run a process until it ends by itself."""
    async with open_kept_process(spec) as process:
        await ended(process)
        return await process.kill()


async def ended(process: KeptProcess) -> None:
    async with asyncio.timeout(STOP_SECONDS):
        await process.ended.wait()


def containment_fields(name: str) -> dict[str, Any]:
    """Return the fields of a specification with this containment; skip the test if the machine has none."""
    if os.geteuid() != 0 or SYSTEM_PYTHON is None:
        pytest.skip("only root can run processes as other users, and they need a Python")
    nobody = {"uid": NOBODY, "gid": NOBODY}
    user = {"uid": UNUSED_USER, "gid": UNUSED_USER}
    # Code that kills all it can would kill the processes of nobody in parallel tests, too. Zombies that it
    # leaves would count among the processes of the user above, whose number other tests limit.
    lone = {"uid": UNUSED_USER + 5, "gid": UNUSED_USER + 5}
    group = own_control_group() if name == "cgroup" else None
    if name == "cgroup" and group is None:
        pytest.skip("no cgroup v2 is writable")
    fields: dict[str, dict[str, Any]] = {
        "namespace": {"containment": "namespace", **nobody},
        "namespace with users": {
            "containment": "namespace",
            "new_user": True,
            "has_own_user": True,
            **nobody,
        },
        "user": {"containment": "user", "has_own_user": True, **user},
        "cgroup": {"containment": "cgroup", "cgroup": f"{group}/test-{uuid4()}", **lone},
    }
    return fields[name]
