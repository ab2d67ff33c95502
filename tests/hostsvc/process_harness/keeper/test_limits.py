"""The limits of a run: each ends the run, or is reported by the kernel, and the error names it."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from hostsvc.process_harness.directory_trees import remove
from hostsvc.process_harness.keeper.containment import Containment
from hostsvc.process_harness.keeper.limits import (
    BLOCK_BYTES,
    MEGABYTE,
    HomeRefused,
    LimitWatch,
    home_bytes,
)
from hostsvc.process_harness.settings import RunLimits
from tests.hostsvc.process_harness.specs import containment_fields, python, run, spec_of
from tests.processes import marked

UNLIMITED = dict.fromkeys(asdict(RunLimits()), 0)

BOMB = """
import os, time
count = 0
while count < 400:
    try:
        if os.fork() == 0:
            time.sleep(600)
    except OSError as error:
        print(error, flush=True)
        break
    count += 1
print(count, flush=True)
time.sleep(600)
"""
HOGS = "import time; data = bytearray(200 << 20); time.sleep(600)"
SPINS = """
import os
os.fork()
while True:
    pass
"""
FILLS = """
import os, time
for number in range(30):
    open(f"home/{number}", "wb").write(os.urandom(1 << 20))
time.sleep(600)
"""


@pytest.mark.parametrize(
    ("code", "limits", "error"),
    [
        (BOMB, RunLimits(processes=20), r"harness\.limits\.processes \(\d+ processes and threads used, 20"),
        (HOGS, RunLimits(memory_mb=64), r"harness\.limits\.memory_mb \(\d+ MB used, 64 allowed\)"),
        (SPINS, RunLimits(cpu_seconds=1), r"harness\.limits\.cpu_seconds \(\d\.\d seconds used, 1 allowed"),
        (FILLS, RunLimits(home_mb=20), r"harness\.limits\.home_mb \(\d+ MB used, 20 allowed\)"),
    ],
)
async def test_run_over_limit_is_killed_and_names_it(
    workspace: Path, mark: str, code: str, limits: RunLimits, error: str
) -> None:
    fields = containment_fields("namespace")
    end = await run(python(workspace, mark, code, limits=limits, **fields))
    assert end.code == -9
    with pytest.raises(AssertionError, match=f"^killed because it exceeded {error}"):
        raise AssertionError(end.describe(limits))
    assert marked(mark) == []


@pytest.mark.parametrize("kind", ["namespace with users", "user"])
async def test_kernel_stops_bomb_of_run_with_own_count(workspace: Path, mark: str, kind: str) -> None:
    limits = RunLimits(processes=20)
    end = await run(python(workspace, mark, BOMB, limits=limits, **containment_fields(kind)))
    error, count = end.output.splitlines()
    assert "Resource temporarily unavailable" in error
    assert int(count) <= limits.processes + 3
    assert "harness.limits.processes" in end.describe(limits)


@pytest.mark.slow
async def test_run_in_control_group_is_limited(workspace: Path, mark: str) -> None:
    limits = RunLimits(cpu_seconds=1)
    end = await run(python(workspace, mark, SPINS, limits=limits, **containment_fields("cgroup")))
    assert "harness.limits.cpu_seconds" in end.describe(limits)


async def test_too_large_file_kills_the_writer(workspace: Path, mark: str) -> None:
    limits = RunLimits(file_mb=1)
    writes = ("dd", "if=/dev/zero", "of=home/file", "bs=1M", "count=2", "status=none")
    end = await run(spec_of(workspace, mark, *writes, limits=limits))
    assert end.describe(limits) == "killed by SIGXFSZ (harness.limits.file_mb is 1)"


@pytest.mark.parametrize(
    ("code", "limits", "hint"),
    [
        ("files = [open('/dev/null') for _ in range(99)]", RunLimits(open_files=32), "open_files is 32"),
        ("open('home/file', 'wb', 0).write(bytes(2 << 20)) or exit(1)", RunLimits(file_mb=1), ""),
    ],
)
async def test_limit_of_the_kernel_is_named_in_the_error(
    workspace: Path, mark: str, code: str, limits: RunLimits, hint: str
) -> None:
    end = await run(python(workspace, mark, code, limits=limits))
    if hint:
        assert end.describe(limits).endswith(f"(harness.limits.{hint})")
    else:
        assert (workspace / "home/file").stat().st_size == MEGABYTE, "the rest was refused"


async def test_memory_that_processes_share_counts_once(workspace: Path, mark: str) -> None:
    code = """
import os, time
data = bytearray(60 << 20)
children = [os.fork() for _ in range(3)]
time.sleep(1.2)
"""
    limits = RunLimits(memory_mb=150)
    end = await run(python(workspace, mark, code, limits=limits, **containment_fields("namespace")))
    assert end.describe(limits) == ""


def test_home_counts_every_file_and_its_names_once(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below/large").write_bytes(os.urandom(10 * BLOCK_BYTES))
    for number in range(3):
        os.link(tmp_path / "below/large", tmp_path / f"name{number}")
        (tmp_path / f"empty{number}").touch()
        (tmp_path / f"link{number}").symlink_to("/")
    *_, total = home_bytes(str(tmp_path))
    assert total == (1 + 10 + 3 + 3) * BLOCK_BYTES


def test_home_deeper_than_longest_path_is_refused(tmp_path: Path) -> None:
    start = os.getcwd()
    try:
        os.chdir(tmp_path)
        for _ in range(25):
            os.mkdir("d" * 200)
            os.chdir("d" * 200)
    finally:
        os.chdir(start)
    with pytest.raises(HomeRefused, match="a directory in its HOME cannot be measured: File name too long"):
        list(home_bytes(str(tmp_path)))
    remove(tmp_path)  # pytest could not


def test_home_is_measured_in_parts_that_take_a_moment(tmp_path: Path) -> None:
    for number in range(2500):
        (tmp_path / str(number)).touch()
    watch = LimitWatch(UNLIMITED | {"home_mb": 9}, str(tmp_path), Containment())
    watch._next_home = 0.0
    found = [watch.exceeded() for _ in range(3)]
    assert found[:2] == ["", ""]
    assert found[2] == "harness.limits.home_mb (10 MB used, 9 allowed)"


def test_watch_without_limits_never_wakes_the_keeper(tmp_path: Path) -> None:
    assert LimitWatch(UNLIMITED, str(tmp_path), Containment()).milliseconds() is None


def test_limits_default_to_what_ordinary_agents_never_meet() -> None:
    defaults: dict[str, Any] = asdict(RunLimits())
    assert defaults.pop("cpu_seconds") == 0
    assert all(limit >= 512 for limit in defaults.values())
