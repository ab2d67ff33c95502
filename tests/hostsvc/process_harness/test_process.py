"""A process of a run: what it gets, how its end is reported, and that nothing of it is left."""

import asyncio
import json
import os
import signal
import stat
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from hostsvc.process_harness import process as process_module
from hostsvc.process_harness.process import NOT_KILLED, OUTPUT_BYTES, ProcessEnd, kill_all, open_process
from hostsvc.process_harness.settings import ContainmentKind, RunLimits
from supervisors.clock import wait_until_readable
from tests.acceptance.client import eventually
from tests.hostsvc.process_harness.specs import (
    LEAVES_CHILDREN,
    ended,
    python,
    run,
    some_marked,
    some_user,
    spec_of,
)
from tests.paths import ROOT
from tests.patience import PATIENCE_SECONDS
from tests.processes import all_gone, content, is_alive, marked

FREEZER = Path("/sys/fs/cgroup/freezer")
ROUNDS = 10

IGNORES_SIGTERM = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("deaf", flush=True)
open(os.environ["HOME"] + "/deaf", "w").write("\\n")
time.sleep(600)
"""

WAITS_AFTER_OUTPUT = """
import os, time
print("stolen", flush=True)
while not os.path.exists("/proc/self/cwd/go"):
    time.sleep(0.01)
print("kept")
"""

LEAVES_THOUSANDS = """
import os, signal
for _ in range(2000):
    if os.fork() == 0:
        os.setsid()
        signal.pause()
open(os.environ["HOME"] + "/crowd", "w").write("\\n")
signal.pause()
"""

# Children that exit when the run is asked to stop, each at a moment of its own.
SIXTY_THAT_EXIT = """
import os, signal, time
for number in range(60):
    if os.fork() == 0:
        def leave(*_):
            time.sleep(number * 0.0005)
            os._exit(0)
        signal.signal(signal.SIGTERM, leave)
        if number % 2:
            os.setsid()
        while True:
            signal.pause()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(os.environ["HOME"] + "/ready", "w").write("\\n")
while True:
    try:
        os.wait()
    except ChildProcessError:
        signal.pause()
"""

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
open(os.environ["HOME"] + "/chains", "w").write("\\n")
time.sleep(600)
"""

# Processes that kill and suspend all that they can, and one that is the last of them.
STRIKES_BACK = """
import os, signal, time
for number in (signal.SIGKILL, signal.SIGSTOP):
    if os.fork() == 0:
        os.setsid()
        open(os.environ["HOME"] + "/struck", "a").write("\\n")
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
import asyncio, sys
from pathlib import Path
from tests.hostsvc.process_harness.specs import LEAVES_CHILDREN, python
from hostsvc.process_harness.process import open_process

async def serve(workspace, mark, kind, then="time.sleep(600)"):
    stays = LEAVES_CHILDREN + "\\n" + then
    async with open_process(python(Path(workspace), mark, kind, stays)) as process:
        await process.ended.wait()

asyncio.run(serve(*sys.argv[1:]))
"""


@pytest.mark.parametrize("run_loop", [asyncio.run, uvloop.run])
def test_process_gets_its_input_and_reports_its_end(
    run_loop: Callable[[Coroutine[Any, Any, ProcessEnd]], ProcessEnd],
    workspace: Path,
    mark: str,
    kind: ContainmentKind,
) -> None:
    text = "é" * 200_000
    code = "import sys; print(len(sys.stdin.buffer.read())); sys.exit(3)"
    end = run_loop(run(python(workspace, mark, kind, code, input=text)))
    assert (end.code, end.output, end.describe(RunLimits())) == (3, "400000\n", "exit code 3: 400000")


@pytest.mark.parametrize("run_loop", [asyncio.run, uvloop.run])
def test_process_inherits_no_environment_and_no_descriptors(
    run_loop: Callable[[Coroutine[Any, Any, ProcessEnd]], ProcessEnd],
    workspace: Path,
    mark: str,
    kind: ContainmentKind,
) -> None:
    code = "import os, json; print(json.dumps([dict(os.environ), os.listdir('/proc/self/fd'), os.getcwd()]))"
    spec = python(workspace, mark, kind, code)
    with (workspace / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        end = run_loop(run(spec))
    environment, descriptors, directory = json.loads(end.output)
    assert {name: environment[name] for name in environment.keys() - {"LC_CTYPE", "PWD"}} == spec.environment
    assert descriptors == ["0", "1", "2", "3"], "the last is the directory that it lists"
    assert directory == str(spec.directory)


@pytest.mark.parametrize(
    ("command", "reason"),
    [("no-such-program", "No such file or directory"), ("./run.py", "Permission denied")],
)
async def test_command_that_cannot_be_started_is_reported(
    workspace: Path, mark: str, kind: ContainmentKind, command: str, reason: str
) -> None:
    spec = spec_of(workspace, mark, kind, command, input="x" * 1_000_000)  # which nobody reads
    (spec.directory / "run.py").write_text("print()")
    message = f"the command could not be started: {command}: {reason}"
    assert (await run(spec)).describe(RunLimits()) == message


@pytest.mark.parametrize(
    ("code", "description"),
    [
        ("", ""),
        ("import sys; sys.exit('no\\x00 luck\\x1b')", "exit code 1: no luck"),
        ("import os; os.kill(os.getpid(), 9)", "killed by SIGKILL"),
        ("import os; os.kill(os.getpid(), 15)", "killed by SIGTERM"),
        ("import os; os.kill(os.getpid(), 37)", "killed by signal 37"),
    ],
)
async def test_end_is_described_by_code_signal_and_last_line(
    workspace: Path, mark: str, kind: ContainmentKind, code: str, description: str
) -> None:
    assert (await run(python(workspace, mark, kind, code))).describe(RunLimits()) == description


async def test_only_the_end_of_long_output_is_kept(workspace: Path, mark: str, kind: ContainmentKind) -> None:
    flood = "import os\nfor n in range(100): os.write(n % 2 + 1, b'x' * 65536)\nos.write(1, b'the end\\xff')"
    end = await run(python(workspace, mark, kind, flood))
    assert end.code == 0
    assert end.output.endswith("xthe end\N{REPLACEMENT CHARACTER}")
    assert len(end.output) == OUTPUT_BYTES


async def test_output_that_the_run_has_read_itself_blocks_nobody(
    workspace: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait, spec = wait_until_readable, python(workspace, mark, "none", WAITS_AFTER_OUTPUT)

    async def steal(descriptor: int) -> None:
        await wait(descriptor)
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode) and not (spec.directory / "go").exists():
            os.read(descriptor, OUTPUT_BYTES)  # as a run can that opens /proc/self/fd/1
            asyncio.get_running_loop().call_later(0.1, (spec.directory / "go").touch)

    monkeypatch.setattr(process_module, "wait_until_readable", steal)
    assert (await run(spec)).output == "kept\n"


async def test_terminated_process_can_exit_by_itself(
    workspace: Path, mark: str, kind: ContainmentKind
) -> None:
    exits_on_sigterm = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])  # a handler may come just before a sleep
open(os.environ["HOME"] + "/ready", "w").write("\\n")
signal.sigwait([signal.SIGTERM])
sys.exit(7)
"""
    spec = python(workspace, mark, kind, exits_on_sigterm)
    async with open_process(spec) as process:
        await content(spec.home / "ready")
        process.terminate()
        await ended(process)
        assert (await process.kill()).code == 7


async def test_process_terminated_before_its_start_ends(
    workspace: Path, mark: str, kind: ContainmentKind
) -> None:
    async with open_process(spec_of(workspace, mark, kind, "sleep", "600")) as process:
        process.terminate()
        await ended(process)
        assert (await process.kill()).describe(RunLimits()) in {"killed by SIGTERM", "killed by SIGKILL"}


async def test_process_killed_before_its_start_leaves_nothing(
    workspace: Path, mark: str, kind: ContainmentKind
) -> None:
    for pause in range(ROUNDS):
        spec = spec_of(workspace, mark, kind, "sleep", "600")
        async with open_process(spec) as process:
            await asyncio.sleep(pause / 1000)
            assert (await process.kill()).code == -signal.SIGKILL
        assert marked(str(spec.home)) == []


async def test_process_killed_before_its_network_leaves_nothing(
    workspace: Path, mark: str, sandbox: ContainmentKind
) -> None:
    for pause in range(0, 100, 10):
        spec = spec_of(workspace, mark, sandbox, "sleep", "600", network="service")
        async with asyncio.timeout(PATIENCE_SECONDS), open_process(spec) as process:
            await asyncio.sleep(pause / 1000)
            assert (await process.kill()).code == -signal.SIGKILL
        assert marked(str(spec.home)) == []


async def test_process_that_ignores_sigterm_is_killed(
    workspace: Path, mark: str, kind: ContainmentKind
) -> None:
    spec = python(workspace, mark, kind, IGNORES_SIGTERM)
    async with open_process(spec) as process:
        await content(spec.home / "deaf")
        process.terminate()
        assert not process.ended.is_set()
        end = await process.kill()
    assert end.describe(RunLimits()) == "killed by SIGKILL: deaf"
    assert marked(mark) == []


async def test_run_killed_while_its_children_exit_is_over(
    workspace: Path, mark: str, kind: ContainmentKind
) -> None:
    for number in range(ROUNDS):
        spec = python(workspace, mark, kind, SIXTY_THAT_EXIT)
        async with asyncio.timeout(PATIENCE_SECONDS), open_process(spec) as process:
            await content(spec.home / "ready")
            process.terminate()
            await asyncio.sleep(number * 0.002)
            assert (await process.kill()).code == -signal.SIGKILL
            assert process.ended.is_set()
            assert marked(mark) == []


async def test_descendants_of_a_process_that_exits_are_killed(
    workspace: Path, mark: str, kind: ContainmentKind
) -> None:
    async with open_process(python(workspace, mark, kind, LEAVES_CHILDREN)) as process:
        await ended(process)
        assert marked(mark) == []
        assert (await process.kill()).code == 0


@pytest.mark.parametrize(
    ("code", "ready"), [(f"{LEAVES_CHILDREN}\ntime.sleep(600)", "daemon"), (LEAVES_THOUSANDS, "crowd")]
)
async def test_descendants_of_a_killed_process_are_killed(
    workspace: Path, mark: str, kind: ContainmentKind, code: str, ready: str
) -> None:
    spec = python(workspace, mark, kind, code, limits=RunLimits(processes=0))
    async with open_process(spec) as process:
        await content(spec.home / ready)
        assert (await process.kill()).code == -signal.SIGKILL
        assert marked(mark) == []


async def test_sixty_chains_of_forks_are_killed(workspace: Path, mark: str, sandbox: ContainmentKind) -> None:
    spec = python(workspace, mark, sandbox, CHAINS, limits=RunLimits(processes=0))
    async with asyncio.timeout(PATIENCE_SECONDS), open_process(spec) as process:
        await content(spec.home / "chains")
        assert (await process.kill()).code == -signal.SIGKILL
        assert marked(mark) == []


async def test_processes_that_kill_all_they_can_are_killed(
    workspace: Path, mark: str, sandbox: ContainmentKind
) -> None:
    spec = python(workspace, mark, sandbox, STRIKES_BACK)
    async with open_process(spec) as process:
        await content(spec.home / "struck")
        assert (await process.kill()).code == -signal.SIGKILL
        assert marked(mark) == []


async def test_namespace_dies_with_killed_bwrap(workspace: Path, mark: str, sandbox: ContainmentKind) -> None:
    spec = python(workspace, mark, sandbox, f"{LEAVES_CHILDREN}\ntime.sleep(600)")
    async with open_process(spec) as process:
        await content(spec.home / "daemon")
        os.kill(process._started.pid, signal.SIGKILL)
        await ended(process)
        assert marked(mark) == []
        assert (await process.kill()).describe(RunLimits()) == "killed by SIGKILL"


async def test_descendants_are_killed_with_the_service(
    workspace: Path, mark: str, kind: ContainmentKind
) -> None:
    arguments = ("-c", SERVICE, str(workspace), mark, kind)
    service = await asyncio.create_subprocess_exec(sys.executable, *arguments, cwd=ROOT)
    home = workspace / "run1/home"
    await content(home / "daemon")
    service.kill()
    await service.wait()
    if kind == "none":  # as the guardian does
        await kill_all(f"{workspace}/")
    await all_gone(mark)
    await all_gone(str(home))


async def test_command_that_clears_its_environment_is_killed_with_the_service(
    workspace: Path, mark: str
) -> None:
    then = (
        'open(home + "/command", "w").write(f"{os.getpid()}\\n")'
        '; os.execve("/bin/sleep", ["sleep", "600"], {})'
    )
    arguments = ("-c", SERVICE, str(workspace), mark, "none", then)
    service = await asyncio.create_subprocess_exec(sys.executable, *arguments, cwd=ROOT)
    command = int(await content(workspace / "run1/home/command"))
    service.kill()
    await service.wait()
    await kill_all(f"{workspace}/")  # as the guardian does

    async def is_gone() -> bool | None:
        return None if is_alive(command) else True

    await eventually(is_gone, "the command to be killed")


async def test_process_cannot_gain_privileges_and_is_killed_first(
    workspace: Path, mark: str, kind: ContainmentKind
) -> None:
    shows = "grep NoNewPrivs /proc/self/status; cat /proc/self/oom_score_adj; ulimit -c; id -u"
    end = await run(spec_of(workspace, mark, kind, "sh", "-c", shows))
    uid = str(some_user().uid if os.geteuid() == 0 else os.geteuid())
    assert end.output.split() == ["NoNewPrivs:", "1", "1000", "0", uid]


async def test_folder_over_its_limit_kills_the_run(
    workspace: Path, mark: str, kind: ContainmentKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_module, "MEASURE_SECONDS", 0.1)
    fills = "dd if=/dev/zero of=$HOME/file bs=1M count=12 status=none; sleep 600"
    limits = RunLimits(home_mb=10)
    end = await run(spec_of(workspace, mark, kind, "sh", "-c", fills, limits=limits))
    assert end.describe(limits) == "killed because it exceeded harness.limits.home_mb (10)"
    assert marked(mark) == []


@pytest.mark.skipif(not FREEZER.exists() or os.geteuid() != 0, reason="needs the freezer of cgroup v1")
async def test_process_that_cannot_be_killed_is_reported_until_gone(
    workspace: Path, mark: str, kind: ContainmentKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_module, "KILL_SECONDS", 0.2)
    frozen = FREEZER / f"hostsvc-test-{mark}"
    frozen.mkdir()
    try:
        async with open_process(spec_of(workspace, mark, kind, "sleep", "600")) as process:
            [command] = await some_marked(mark)
            (frozen / "cgroup.procs").write_text(str(command))
            (frozen / "freezer.state").write_text("FROZEN")
            started = time.monotonic()
            assert await process.kill() == ProcessEnd(None, NOT_KILLED)
            assert await process.kill() == ProcessEnd(None, NOT_KILLED)
            assert time.monotonic() - started < PATIENCE_SECONDS
            assert process.is_overdue
            assert not process.ended.is_set()
            (frozen / "freezer.state").write_text("THAWED")
            await ended(process)
        assert not is_alive(command)
    finally:
        (frozen / "freezer.state").write_text("THAWED")
        await all_gone(mark)
        frozen.rmdir()
