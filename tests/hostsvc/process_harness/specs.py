"""Processes for the tests of the process harness."""

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hostsvc.process_harness.cache import make_folder
from hostsvc.process_harness.machine import look_up_user
from hostsvc.process_harness.process import ProcessEnd, RunProcess, open_process
from hostsvc.process_harness.sandbox import Containment, ProcessSpec, UnixUser
from hostsvc.process_harness.settings import ContainmentKind, HarnessSettings, Network
from tests.patience import PATIENCE_SECONDS
from tests.processes import marked

MARK = "MARK_OF_THE_TEST"
DEPTH, NAME = 25, "d" * 200  # together over the limit of the length of paths (4,096)
# The interpreter of the tests may stand in a directory of root, where other users cannot execute it.
SYSTEM_PYTHON = shutil.which("python3", path=os.defpath)
SYSTEM_PATH = os.defpath

# One child in the group, and one that left it with a session of its own and is an orphan.
LEAVES_CHILDREN = """
import os, time
home = os.environ["HOME"]
if os.fork() == 0:
    time.sleep(600)
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    open(home + "/daemon", "w").write(f"{os.getpid()}\\n")
    time.sleep(600)
while not os.path.exists(home + "/daemon"):
    time.sleep(0.01)
"""


def some_user() -> UnixUser:
    """Return a user other than root."""
    if os.geteuid() != 0:
        return UnixUser()
    return look_up_user(HarnessSettings(user="nobody"), Path("/"))


def spec_of(
    workspace: Path, mark: str, kind: ContainmentKind, *command: str, network: Network = "full", **fields: Any
) -> ProcessSpec:
    """Return the specification of a process that runs as another user if the tests run as root."""
    user = some_user()
    directory = workspace / "checkout"
    directory.mkdir(exist_ok=True)
    folder = make_folder(workspace / f"run{len(list(workspace.iterdir()))}", user.owner)
    environment = {"PATH": SYSTEM_PATH, "HOME": str(folder / "home"), MARK: mark}
    options = {"input": "", "directory": directory, "environment": environment, "user": user, **fields}
    containment = Containment(kind, network)
    return ProcessSpec(command=command, cache=workspace, folder=folder, containment=containment, **options)


def python(workspace: Path, mark: str, kind: ContainmentKind, code: str, **fields: Any) -> ProcessSpec:
    if SYSTEM_PYTHON is None:
        pytest.skip("there is no Python that every user can execute")
    return spec_of(workspace, mark, kind, SYSTEM_PYTHON, "-I", "-S", "-c", code, **fields)


async def run(spec: ProcessSpec) -> ProcessEnd:
    """Run a process until it ends by itself."""
    async with open_process(spec) as process:
        await ended(process)
        return await process.kill()


async def ended(process: RunProcess) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        await process.ended.wait()


async def some_marked(mark: str) -> list[int]:
    """Wait until the command itself runs, which has the mark, and return its process."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (processes := marked(mark)):  # noqa: ASYNC110 -- not our children
            await asyncio.sleep(0.01)
    return processes


def make_deep(tree: Path) -> Path:
    """Create a tree whose innermost paths exceed the maximum length of a path."""
    tree.mkdir()
    # In another process, because it changes the working directory.
    code = f"import os\nfor _ in range({DEPTH}): os.mkdir('{NAME}'); os.chdir('{NAME}'); open('f', 'w')"
    subprocess.run([sys.executable, "-S", "-c", code], cwd=tree, check=True)
    return tree
