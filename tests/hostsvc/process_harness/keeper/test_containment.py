"""What runs in a containment cannot leave it, whatever it does, and whoever else is killed."""

import asyncio
import json
import os
import signal
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from hostsvc.process_harness.keeper.containment import live_users
from hostsvc.process_harness.kept_process import clean, open_kept_process
from hostsvc.process_harness.settings import RunLimits
from tests.hostsvc.process_harness.specs import (
    LEAVES_CHILDREN,
    UNUSED_USER,
    containment_fields,
    ended,
    python,
    run,
)
from tests.processes import all_gone, content, marked

KILL_SECONDS = 60.0  # a limit: killing takes milliseconds
STAYS = f"{LEAVES_CHILDREN}\ntime.sleep(600)"

# Each chain is always one process, which has just left its parent, its group and its session.
CHAINS = """
import os, time
for _ in range(60):
    if os.fork() == 0:
        while True:
            time.sleep(0.02)
            if os.fork():
                os._exit(0)
            os.setsid()
            if os.fork():
                os._exit(0)
open("home/chains", "w").write("\\n")
time.sleep(600)
"""

# Processes that kill and suspend all that they can, and one that is the last of them.
STRIKES_BACK = """
import os, signal, time
for number in (signal.SIGKILL, signal.SIGSTOP):
    if os.fork() == 0:
        os.setsid()
        open("home/struck", "a").write("\\n")
        while True:
            for process in [int(name) for name in os.listdir("/proc") if name.isdigit()]:
                if process != os.getpid():
                    try:
                        os.kill(process, number)
                    except OSError:
                        pass
time.sleep(600)
"""

SERVICE = """
import asyncio, json, sys
from hostsvc.process_harness.kept_process import ProcessSpec, open_kept_process
from hostsvc.process_harness.settings import RunLimits

async def serve():
    fields = json.loads(sys.argv[1])
    fields["limits"] = RunLimits(**fields["limits"])
    async with open_kept_process(ProcessSpec(**fields)) as process:
        print(process._keeper.pid, flush=True)
        await process.ended.wait()

asyncio.run(serve())
"""


async def test_sixty_chains_of_forks_are_killed(
    workspace: Path, mark: str, contained: dict[str, Any]
) -> None:
    spec = python(workspace, mark, CHAINS, limits=RunLimits(processes=0), **contained)
    async with asyncio.timeout(KILL_SECONDS), open_kept_process(spec) as process:
        await content(workspace / "home/chains")
        assert (await process.kill()).code == -signal.SIGKILL
        assert marked(mark) == []


async def test_descendants_are_gone_when_command_has_ended(
    workspace: Path, mark: str, contained: dict[str, Any]
) -> None:
    async with open_kept_process(python(workspace, mark, LEAVES_CHILDREN, **contained)) as process:
        await ended(process)
        assert marked(mark) == []
        assert (await process.kill()).code == 0


async def test_descendants_are_gone_when_killed_keeper_has_ended(
    workspace: Path, mark: str, contained: dict[str, Any]
) -> None:
    async with open_kept_process(python(workspace, mark, STAYS, **contained)) as process:
        await content(workspace / "home/daemon")
        os.kill(process._keeper.pid, signal.SIGKILL)
        await ended(process)
        assert marked(mark) == []
        assert (await process.kill()).code is None


async def test_descendants_are_killed_with_the_service(
    workspace: Path, mark: str, contained: dict[str, Any]
) -> None:
    spec = python(workspace, mark, STAYS, **contained)
    service = await asyncio.create_subprocess_exec(sys.executable, "-c", SERVICE, json.dumps(asdict(spec)))
    await content(workspace / "home/daemon")
    service.kill()
    await service.wait()
    await all_gone(mark)


async def test_descendants_of_killed_service_and_keeper_are_cleaned(
    workspace: Path, mark: str, contained: dict[str, Any]
) -> None:
    spec = python(workspace, mark, STAYS, **contained)
    pipe = asyncio.subprocess.PIPE
    service = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", SERVICE, json.dumps(asdict(spec))), stdout=pipe
    )
    assert service.stdout is not None
    keeper = int(await service.stdout.readline())
    await content(workspace / "home/daemon")
    for process in (service.pid, keeper):
        os.kill(process, signal.SIGKILL)
    await service.wait()
    if spec.containment == "namespace":
        await all_gone(mark)
    else:
        await clean(spec)
        assert marked(mark) == []


async def test_processes_that_kill_all_they_can_are_killed(
    workspace: Path, mark: str, contained: dict[str, Any]
) -> None:
    async with open_kept_process(python(workspace, mark, STRIKES_BACK, **contained)) as process:
        await content(workspace / "home/struck")
        assert (await process.kill()).code is not None, "the keeper was out of reach"
        assert marked(mark) == []


async def test_containment_can_be_entered_again(
    workspace: Path, mark: str, contained: dict[str, Any]
) -> None:
    spec = python(workspace, mark, "print('hello')", **contained)
    for _ in range(2):
        end = await run(replace(spec, command=spec.command))
        assert (end.code, end.output) == (0, "hello\n")


async def test_users_without_live_processes_are_not_live(workspace: Path, mark: str) -> None:
    fields = containment_fields("user")
    async with open_kept_process(python(workspace, mark, STAYS, **fields)) as process:
        await content(workspace / "home/daemon")
        assert UNUSED_USER in live_users()
        await process.kill()
    assert UNUSED_USER not in live_users()
