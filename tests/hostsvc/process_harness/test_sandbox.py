"""The sandbox of a run: what it sees and may change, and the limits of the kernel, which errors name."""

import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from hostsvc.process_harness.process import open_process
from hostsvc.process_harness.sandbox import MEGABYTE, Containment, has_run_out_of_memory, make_group
from hostsvc.process_harness.settings import ContainmentKind, RunLimits
from tests.hostsvc.process_harness.specs import python, run, some_marked, spec_of
from tests.processes import marked

LOOKS_AROUND = """
import os
print(os.getpid(), os.getppid(), sorted(int(name) for name in os.listdir("/proc") if name.isdigit()))
for attack in (
    lambda: os.kill(1, 15),
    lambda: open("/proc/1/environ", "rb").read().count(b"MARK_OF_THE_TEST"),
    lambda: open("/etc/new", "w"),
    lambda: open("new", "w"),
    lambda: os.mkdir("../new"),
    lambda: os.mkdir("/dev/new"),
    lambda: os.mkdir("/dev/shm/new"),
    lambda: os.listdir("/tmp"),
    lambda: os.mkdir("/tmp/new"),
    lambda: os.mkdir(os.environ["HOME"] + "/new"),
    lambda: sorted(os.listdir("..")),
):
    try:
        print(attack())
    except OSError as error:
        print(error.strerror)
"""

BOMB = """
import os, time
count = 0
while count < 400:
    if os.fork() == 0:
        time.sleep(600)
    count += 1
    print(count, flush=True)
"""
SPINS = """
while True:
    pass
"""


async def test_run_sees_only_itself_and_changes_only_its_folder(
    workspace: Path, mark: str, sandbox: ContainmentKind
) -> None:
    (workspace / "run-of-another").mkdir()
    spec = python(workspace, mark, sandbox, LOOKS_AROUND)
    end = await run(spec)
    processes, killed, environment, *others = end.output.splitlines()
    assert processes == "2 1 [1, 2]"
    assert (killed, environment) == ("None", "0"), "an init process ignores the signal, and has no secrets"
    read_only = "Read-only file system"
    temporary = f"['{workspace.name}']" if workspace.parent == Path("/tmp") else "[]"  # noqa: S108
    seen = f"['checkout', '{spec.folder.name}']"
    assert others == [*[read_only] * 4, "None", temporary, "None", "None", seen]
    assert sorted(os.listdir(spec.home)) == ["new"]
    assert all("new" in os.listdir(spec.folder / name) for name in ("tmp", "shm"))


async def test_environment_of_run_is_in_no_other_process(
    workspace: Path, mark: str, sandbox: ContainmentKind
) -> None:
    spec = spec_of(workspace, mark, sandbox, "sleep", "600")
    async with open_process(spec) as process:
        [command] = await some_marked(mark)
        assert _command_line(command) == "sleep 600"
        lines = [_command_line(each) for each in marked(str(spec.home))]
        assert len(lines) == 3, "bwrap outside of the sandbox, bwrap in it, and the command"
        assert mark not in str(lines)
        await process.kill()


@pytest.mark.parametrize("runs", [1, 2])
async def test_kernel_counts_processes_of_one_run_alone(
    workspace: Path, mark: str, sandbox: ContainmentKind, runs: int
) -> None:
    limits = RunLimits(processes=20)
    for _ in range(runs):
        end = await run(python(workspace, mark, sandbox, BOMB, limits=limits))
        count, *_ = [line for line in reversed(end.output.splitlines()) if line.isdigit()]
        assert int(count) == limits.processes - 1, "the command itself counts, too"
        assert end.describe(limits).endswith("(harness.limits.processes is 20)")
    assert marked(mark) == []


@pytest.mark.parametrize(
    ("code", "limits", "error"),
    [
        ("data = bytearray(200 << 20)", {"memory_mb": 64}, "exit code 1: MemoryError (*memory_mb is 64)"),
        (SPINS, {"cpu_seconds": 1}, "killed by SIGXCPU (*cpu_seconds is 1)"),
        ("[open('/dev/null') for _ in range(99)]", {"open_files": 32}, "*open_files is 32)"),
        ("files = [open('/dev/null') for _ in range(99)]", {"open_files": 32}, "*open_files is 32)"),
    ],
)
async def test_limit_of_the_kernel_is_named_in_the_error(
    workspace: Path, mark: str, kind: ContainmentKind, code: str, limits: dict[str, int], error: str
) -> None:
    end = await run(python(workspace, mark, kind, code, limits=RunLimits(**limits)))
    begin, _, rest = error.partition("*")
    described = end.describe(RunLimits(**limits))
    assert described.startswith(begin)
    assert described.endswith(f"harness.limits.{rest}")


async def test_too_large_file_kills_the_writer(workspace: Path, mark: str, kind: ContainmentKind) -> None:
    limits = RunLimits(file_mb=1)
    writes = "exec dd if=/dev/zero of=$HOME/file bs=1M count=2 status=none"
    spec = spec_of(workspace, mark, kind, "sh", "-c", writes, limits=limits)
    assert (await run(spec)).describe(limits) == "killed by SIGXFSZ (harness.limits.file_mb is 1)"
    assert (spec.home / "file").stat().st_size == MEGABYTE


def test_limits_default_to_what_ordinary_agents_never_meet() -> None:
    defaults: dict[str, Any] = asdict(RunLimits())
    assert defaults.pop("cpu_seconds") == 0
    assert all(limit >= 512 for limit in defaults.values())


def test_control_group_limits_the_run_and_is_removed(
    workspace: Path, mark: str, sandbox: ContainmentKind
) -> None:
    """A plain directory stands for the group: few machines delegate one to tests."""
    spec = spec_of(workspace, mark, sandbox, "true", limits=RunLimits(processes=10, memory_mb=5))
    groups = workspace / "groups"
    groups.mkdir()
    assert make_group(spec) is None
    group = make_group(replace(spec, containment=Containment("bubblewrap", groups=groups)))
    assert group is not None
    written = {file.name: file.read_text() for file in group.iterdir()}
    assert written == {"pids.max": "12", "memory.max": str(5 * MEGABYTE), "memory.oom.group": "1"}
    for events, is_out in (("low 0\noom_kill 0\n", False), ("low 0\noom_kill 3\n", True)):
        (group / "memory.events").write_text(events)
        assert has_run_out_of_memory(group) == is_out


def _command_line(process: int) -> str:
    return Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ").strip()
