"""A kept process: what it gets, how its end is reported, and that no process of it is left."""

import asyncio
import json
import os
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from hostsvc.process_harness import kept_process
from hostsvc.process_harness.keeper.main import OUTPUT_BYTES
from hostsvc.process_harness.kept_process import ProcessEnd, open_kept_process
from hostsvc.process_harness.settings import RunLimits
from tests.hostsvc.process_harness.specs import (
    LEAVES_CHILDREN,
    MARK,
    STOP_SECONDS,
    ended,
    python,
    run,
    spec_of,
)
from tests.processes import all_gone, content, is_alive, marked

FREEZER = Path("/sys/fs/cgroup/freezer")

IGNORES_SIGTERM = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("deaf", flush=True)
open("deaf", "w").write("\\n")
time.sleep(600)
"""

LEAVES_THOUSANDS = """
import os, signal
for _ in range(2000):
    if os.fork() == 0:
        os.setsid()
        signal.pause()
open("crowd", "w").write("\\n")
signal.pause()
"""


async def some_marked(mark: str) -> list[int]:
    """Wait until there are processes with this mark, and return them."""
    async with asyncio.timeout(STOP_SECONDS):
        while not (processes := marked(mark)):  # noqa: ASYNC110 -- not our children
            await asyncio.sleep(0.01)
    return processes


@pytest.mark.parametrize("run_loop", [asyncio.run, uvloop.run])
def test_process_gets_its_input_and_reports_its_end(
    run_loop: Callable[[Coroutine[Any, Any, ProcessEnd]], ProcessEnd], tmp_path: Path, mark: str
) -> None:
    text = "é" * 200_000
    echo = python(tmp_path, mark, "import sys; print(len(sys.stdin.read())); sys.exit(3)", input=text)
    end = run_loop(run(echo))
    assert (end.code, end.output, end.describe(RunLimits())) == (3, "200000\n", "exit code 3: 200000")


async def test_process_need_not_read_its_input(tmp_path: Path, mark: str) -> None:
    assert await run(spec_of(tmp_path, mark, "true", input="x" * 1_000_000)) == ProcessEnd(0)


async def test_process_inherits_no_environment_and_no_descriptors(tmp_path: Path, mark: str) -> None:
    code = "import os, json; print(json.dumps([dict(os.environ), os.listdir('/proc/self/fd'), os.getcwd()]))"
    with (tmp_path / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        end = await run(python(tmp_path, mark, code, environment={MARK: mark}))
    environment, descriptors, directory = json.loads(end.output)
    environment.pop("LC_CTYPE", None)  # Python sets it
    assert environment == {MARK: mark}
    assert descriptors[:3] == ["0", "1", "2"]
    assert len(descriptors) == 4, "the fourth is the directory that it lists"
    assert directory == str(tmp_path)


async def test_missing_command_is_reported(tmp_path: Path, mark: str) -> None:
    end = await run(spec_of(tmp_path, mark, "no-such-program"))
    assert end.describe(RunLimits()) == "the command could not be started: No such file or directory"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a process as another user")
async def test_missing_command_is_reported_despite_unreadable_path_entries(tmp_path: Path, mark: str) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    environment = {"PATH": f"{closed}:{os.environ['PATH']}", MARK: mark}
    options: dict[str, Any] = {"directory": "/", "environment": environment, "uid": 65534, "gid": 65534}
    end = await run(spec_of(tmp_path, mark, "no-such-program", **options))
    assert end.describe(RunLimits()) == "the command could not be started: No such file or directory"


async def test_input_that_cannot_be_written_is_reported(
    tmp_path: Path, mark: str, capfd: pytest.CaptureFixture[str]
) -> None:
    spec = spec_of(tmp_path, mark, "true")
    (tmp_path / "home").rmdir()
    end = await run(spec)
    assert end.describe(RunLimits()) == "the command could not be started: No such file or directory"
    assert capfd.readouterr().err == ""


async def test_file_that_is_not_executable_is_reported(tmp_path: Path, mark: str) -> None:
    (tmp_path / "run.py").write_text("print()")
    end = await run(spec_of(tmp_path, mark, "./run.py"))
    assert end.describe(RunLimits()) == "the command could not be started: Permission denied"


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
    tmp_path: Path, mark: str, code: str, description: str
) -> None:
    assert (await run(python(tmp_path, mark, code))).describe(RunLimits()) == description


async def test_only_the_end_of_long_output_is_kept(tmp_path: Path, mark: str) -> None:
    flood = "import os\nfor n in range(400): os.write(n % 2 + 1, b'x' * 65536)\nos.write(1, b'the end\\xff')"
    end = await run(python(tmp_path, mark, flood))
    assert end.code == 0
    assert end.output.endswith("xthe end\N{REPLACEMENT CHARACTER}")
    assert len(end.output) == OUTPUT_BYTES


async def test_terminated_process_can_exit_by_itself(tmp_path: Path, mark: str) -> None:
    exits_on_sigterm = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
open("ready", "w").write("\\n")
time.sleep(600)
"""
    async with open_kept_process(python(tmp_path, mark, exits_on_sigterm)) as process:
        await content(tmp_path / "ready")
        process.terminate()
        await ended(process)
        assert (await process.kill()).code == 7


async def test_process_terminated_before_its_start_ends(tmp_path: Path, mark: str) -> None:
    async with open_kept_process(spec_of(tmp_path, mark, "sleep", "600")) as process:
        process.terminate()
        await ended(process)
        assert (await process.kill()).describe(RunLimits()) == "killed by SIGTERM"


async def test_process_that_ignores_sigterm_is_killed(tmp_path: Path, mark: str) -> None:
    async with open_kept_process(python(tmp_path, mark, IGNORES_SIGTERM)) as process:
        await content(tmp_path / "deaf")
        process.terminate()
        assert not process.ended.is_set()
        end = await process.kill()
    assert end.describe(RunLimits()) == "killed by SIGKILL: deaf"
    assert marked(mark) == []


async def test_descendants_of_a_process_that_exits_are_killed(tmp_path: Path, mark: str) -> None:
    end = await run(python(tmp_path, mark, LEAVES_CHILDREN))
    assert end.code == 0
    assert marked(mark) == []


async def test_descendants_of_a_killed_process_are_killed(tmp_path: Path, mark: str) -> None:
    stays = f"{LEAVES_CHILDREN}\ntime.sleep(600)"
    async with open_kept_process(python(tmp_path, mark, stays)) as process:
        await content(tmp_path / "home/daemon")
        assert len(marked(mark)) == 3
        await process.kill()
        assert marked(mark) == []


async def test_thousands_of_descendants_are_killed(tmp_path: Path, mark: str) -> None:
    spec = python(tmp_path, mark, LEAVES_THOUSANDS, limits=RunLimits(processes=0))
    async with open_kept_process(spec) as process:
        await content(tmp_path / "crowd")
        assert (await process.kill()).code == -signal.SIGKILL, "its keeper has reaped all of them in time"
        assert marked(mark) == []


async def test_process_is_killed_with_its_keeper(tmp_path: Path, mark: str) -> None:
    async with open_kept_process(python(tmp_path, mark, IGNORES_SIGTERM)) as process:
        await content(tmp_path / "deaf")
        [command] = marked(mark)
        os.kill(process._keeper.pid, signal.SIGKILL)
        await ended(process)
        assert (await process.kill()).describe(RunLimits()) == "its keeper ended, and the command with it"
        await all_gone(mark)
    assert not is_alive(command)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a process as another user")
async def test_process_can_run_as_another_user(tmp_path: Path, mark: str) -> None:
    command = "id -u; id -g; id -G; cat /proc/1/environ"
    options: dict[str, Any] = {"directory": "/", "uid": 65534, "gid": 65533, "groups": (65532,)}
    end = await run(spec_of(tmp_path, mark, "sh", "-c", command, **options))
    *ids, last = end.output.splitlines()
    assert ids == ["65534", "65533", "65533 65532"]
    assert "Permission denied" in last


@pytest.mark.skipif(not FREEZER.exists() or os.geteuid() != 0, reason="needs the freezer of cgroup v1")
async def test_suspended_keeper_is_continued(
    tmp_path: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_process, "KILL_SECONDS", 0.2)
    async with open_kept_process(spec_of(tmp_path, mark, "sleep", "600")) as process:
        await some_marked(mark)
        os.kill(process._keeper.pid, signal.SIGSTOP)
        async with asyncio.timeout(STOP_SECONDS):
            assert (await process.kill()).describe(RunLimits()) == "killed by SIGKILL"


async def test_process_that_cannot_be_killed_keeps_its_place(
    tmp_path: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_process, "KILL_SECONDS", 0.2)
    frozen = FREEZER / f"hostsvc-test-{mark}"
    frozen.mkdir()
    try:
        async with open_kept_process(spec_of(tmp_path, mark, "sleep", "600")) as process:
            [command] = await some_marked(mark)
            (frozen / "cgroup.procs").write_text(str(command))
            (frozen / "freezer.state").write_text("FROZEN")
            killing = asyncio.ensure_future(process.kill())
            assert await asyncio.wait({killing}, timeout=1.0) == (set(), {killing})
            assert process.is_stuck
            assert not process.ended.is_set()
            (frozen / "freezer.state").write_text("THAWED")
            await ended(process)
            await killing
    finally:
        (frozen / "freezer.state").write_text("THAWED")
        await all_gone(mark)
        frozen.rmdir()
