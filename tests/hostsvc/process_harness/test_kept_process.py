"""A process in a keeper's hands: what it is given, how its end is told, and that nothing of it is left."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from dataclasses import asdict
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import uvloop

from hostsvc.process_harness.kept_process import KeptProcess, Order, ProcessEnd, kept_process
from hostsvc.process_harness.process_keeper import OUTPUT_BYTES
from tests.processes import all_gone, content, is_alive, marked

MARK = "MARK_OF_THE_TEST"
STOP_SECONDS = 5.0

IGNORES_SIGTERM = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("deaf", flush=True)
open("deaf", "w").write("\\n")
time.sleep(600)
"""

# One child in the group, one that has left it by a session of its own, and is nobody's child any more.
LEAVES_CHILDREN = """
import os, time
if os.fork() == 0:
    time.sleep(600)
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    open("daemon", "w").write(f"{os.getpid()}\\n")
    time.sleep(600)
while not os.path.exists("daemon"):
    time.sleep(0.01)
"""

LEAVES_A_CROWD = """
import os, signal
for _ in range(2000):
    if os.fork() == 0:
        os.setsid()
        signal.pause()
open("crowd", "w").write("\\n")
signal.pause()
"""

SERVICE = """
import asyncio, json, sys
from hostsvc.process_harness.kept_process import Order, kept_process

async def serve():
    async with kept_process(Order(**json.loads(sys.argv[1]))) as process:
        await process.over.wait()

asyncio.run(serve())
"""


@pytest.fixture
def mark() -> str:
    """By which the processes of one test are known."""
    return uuid4().hex


def order(place: Path, mark: str, *command: str, **fields: Any) -> Order:
    home = place / "home"
    home.mkdir()
    environment = {"PATH": os.environ["PATH"], MARK: mark}
    given = {"input": "", "directory": str(place), "environment": environment, **fields}
    return Order(command=command, home=str(home), **given)


def python(place: Path, mark: str, code: str, **fields: Any) -> Order:
    return order(place, mark, sys.executable, "-S", "-c", code, **fields)


async def outcome(of: Order) -> ProcessEnd:
    """How it ends by itself."""
    async with kept_process(of) as process:
        await over(process)
        return await process.kill()


async def over(process: KeptProcess) -> None:
    async with asyncio.timeout(STOP_SECONDS * 4):
        await process.over.wait()


@pytest.mark.parametrize("run_loop", [asyncio.run, uvloop.run])
def test_a_process_is_given_its_input_and_its_end_is_told(
    run_loop: Callable[[Coroutine[Any, Any, ProcessEnd]], ProcessEnd], tmp_path: Path, mark: str
) -> None:
    given = "é" * 200_000
    echo = python(tmp_path, mark, "import sys; print(len(sys.stdin.read())); sys.exit(3)", input=given)
    end = run_loop(outcome(echo))
    assert (end.code, end.output, end.describe()) == (3, "200000\n", "exit code 3: 200000")


async def test_a_process_that_never_reads_its_input_is_not_waited_for(tmp_path: Path, mark: str) -> None:
    assert await outcome(order(tmp_path, mark, "true", input="x" * 1_000_000)) == ProcessEnd(0)


async def test_a_process_has_its_own_environment_and_no_descriptor_of_the_services(
    tmp_path: Path, mark: str
) -> None:
    looking = (
        "import os, json; print(json.dumps([dict(os.environ), os.listdir('/proc/self/fd'), os.getcwd()]))"
    )
    with (tmp_path / "open").open("w") as kept:
        os.set_inheritable(kept.fileno(), True)
        end = await outcome(python(tmp_path, mark, looking, environment={MARK: mark}))
    environment, descriptors, directory = json.loads(end.output)
    environment.pop("LC_CTYPE", None)  # python sets that itself
    assert environment == {MARK: mark}
    assert descriptors[:3] == ["0", "1", "2"]
    assert len(descriptors) == 4, "only the one by which it looks is open besides"
    assert directory == str(tmp_path)


async def test_a_command_that_is_missing_says_so(tmp_path: Path, mark: str) -> None:
    end = await outcome(order(tmp_path, mark, "no-such-program"))
    assert end.describe() == "the command could not be started: No such file or directory"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may run something as somebody else")
async def test_a_command_that_is_missing_says_so_where_a_part_of_the_path_is_closed(
    tmp_path: Path, mark: str
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    environment = {"PATH": f"{closed}:{os.environ['PATH']}", MARK: mark}
    given: dict[str, Any] = {"directory": "/", "environment": environment, "user": 65534, "group": 65534}
    end = await outcome(order(tmp_path, mark, "no-such-program", **given))
    assert end.describe() == "the command could not be started: No such file or directory"


async def test_what_keeps_a_command_from_its_input_is_told_as_well(
    tmp_path: Path, mark: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """As a full disk does."""
    ordered = order(tmp_path, mark, "true")
    (tmp_path / "home").rmdir()
    end = await outcome(ordered)
    assert end.describe() == "the command could not be started: No such file or directory"
    assert capfd.readouterr().err == ""


async def test_a_file_that_is_no_program_says_so(tmp_path: Path, mark: str) -> None:
    (tmp_path / "run.py").write_text("print()")
    end = await outcome(order(tmp_path, mark, "./run.py"))
    assert end.describe() == "the command could not be started: Permission denied"


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("", ""),
        ("import sys; sys.exit('no\\x00 luck\\x1b')", "exit code 1: no luck"),
        ("import os; os.kill(os.getpid(), 9)", "killed by SIGKILL"),
        ("import os; os.kill(os.getpid(), 15)", "killed by SIGTERM"),
        ("import os; os.kill(os.getpid(), 37)", "killed by signal 37"),
    ],
)
async def test_an_end_is_described_by_code_signal_and_last_line(
    tmp_path: Path, mark: str, code: str, told: str
) -> None:
    assert (await outcome(python(tmp_path, mark, code))).describe() == told


async def test_of_a_flood_the_last_is_kept(tmp_path: Path, mark: str) -> None:
    flood = "import os\nfor n in range(400): os.write(n % 2 + 1, b'x' * 65536)\nos.write(1, b'the end\\xff')"
    end = await outcome(python(tmp_path, mark, flood))
    assert end.code == 0
    assert end.output.endswith("xthe end\N{REPLACEMENT CHARACTER}")
    assert len(end.output) == OUTPUT_BYTES


async def test_a_process_that_is_asked_to_end_may_do_so_in_its_own_way(tmp_path: Path, mark: str) -> None:
    orderly = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
open("ready", "w").write("\\n")
time.sleep(600)
"""
    async with kept_process(python(tmp_path, mark, orderly)) as process:
        await content(tmp_path / "ready")
        process.ask_to_end()
        await over(process)
        assert (await process.kill()).code == 7


async def test_a_process_that_is_asked_to_end_before_it_began_ends(tmp_path: Path, mark: str) -> None:
    async with kept_process(order(tmp_path, mark, "sleep", "600")) as process:
        process.ask_to_end()
        await over(process)
        assert (await process.kill()).describe() == "killed by SIGTERM"


async def test_a_process_that_ignores_sigterm_is_killed(tmp_path: Path, mark: str) -> None:
    async with kept_process(python(tmp_path, mark, IGNORES_SIGTERM)) as process:
        await content(tmp_path / "deaf")
        process.ask_to_end()
        assert not process.over.is_set()
        end = await process.kill()
    assert end.describe() == "killed by SIGKILL: deaf"
    assert marked(mark) == []


async def test_nothing_is_left_of_a_process_that_ends_by_itself(tmp_path: Path, mark: str) -> None:
    end = await outcome(python(tmp_path, mark, LEAVES_CHILDREN))
    assert end.code == 0
    assert marked(mark) == []


async def test_nothing_is_left_of_a_process_that_is_killed(tmp_path: Path, mark: str) -> None:
    stays = f"{LEAVES_CHILDREN}\ntime.sleep(600)"
    async with kept_process(python(tmp_path, mark, stays)) as process:
        await content(tmp_path / "daemon")
        assert len(marked(mark)) == 3
        await process.kill()
        assert marked(mark) == []


async def test_nothing_is_left_of_a_crowd(tmp_path: Path, mark: str) -> None:
    async with kept_process(python(tmp_path, mark, LEAVES_A_CROWD)) as process:
        await content(tmp_path / "crowd")
        assert (await process.kill()).code == -signal.SIGKILL, "its keeper has seen to all of them in time"
        assert marked(mark) == []


async def test_nothing_is_left_when_the_service_is_killed(tmp_path: Path, mark: str) -> None:
    stays = python(tmp_path, mark, f"{LEAVES_CHILDREN}\ntime.sleep(600)")
    service = await asyncio.create_subprocess_exec(sys.executable, "-c", SERVICE, json.dumps(asdict(stays)))
    await content(tmp_path / "daemon")
    service.kill()
    await service.wait()
    await all_gone(mark)


async def test_a_command_goes_with_its_keeper(tmp_path: Path, mark: str) -> None:
    async with kept_process(python(tmp_path, mark, IGNORES_SIGTERM)) as process:
        await content(tmp_path / "deaf")
        [command] = marked(mark)
        os.kill(process._keeper.pid, signal.SIGKILL)
        await over(process)
        assert (await process.kill()).describe() == "its keeper ended, and the command with it"
        await all_gone(mark)
    assert not is_alive(command)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may run something as somebody else")
async def test_a_process_may_run_as_somebody_else(tmp_path: Path, mark: str) -> None:
    looking = "id -u; id -g; id -G; cat /proc/1/environ"
    given: dict[str, Any] = {"directory": "/", "user": 65534, "group": 65533, "groups": (65532,)}
    end = await outcome(order(tmp_path, mark, "sh", "-c", looking, **given))
    *told, last = end.output.splitlines()
    assert told == ["65534", "65533", "65533 65532"]
    assert "Permission denied" in last
