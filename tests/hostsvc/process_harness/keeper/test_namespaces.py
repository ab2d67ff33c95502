"""Namespaces: what a run sees in them, without privileges as well, and that failures are reported."""

import json
import os
import socket
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from hostsvc.process_harness.kept_process import KEEPER, PACKAGES, ProcessSpec
from tests.hostsvc.process_harness.specs import NOBODY, SYSTEM_PYTHON, containment_fields, python, run

LOOKS_AROUND = """
import os
print(os.getpid(), os.getppid(), sorted(int(name) for name in os.listdir("/proc") if name.isdigit()))
for attack in (
    lambda: os.kill(1, 9),
    lambda: open("/proc/1/mem", "rb"),
    lambda: open("/proc/1/environ", "rb").read(),
):
    try:
        print("done", attack())
    except OSError as error:
        print(error.strerror)
"""


def keep_as_nobody(spec: ProcessSpec) -> tuple[list[dict[str, Any]], str]:
    """Run a keeper without privileges. Return the lines of its report, and the output of the command."""
    if SYSTEM_PYTHON is None or os.geteuid() != 0:
        pytest.skip("only root can become nobody, who needs a Python")
    own, passed = socket.socketpair()
    with own, passed, passed.makefile("rb") as stdin:
        own.sendall(json.dumps(asdict(spec)).encode() + b"\n")
        keeper = subprocess.run(
            [SYSTEM_PYTHON, *KEEPER[1:]],
            stdin=stdin,
            capture_output=True,
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
            cwd="/",
        )
    if b"ModuleNotFoundError" in keeper.stderr:
        pytest.skip(f"nobody cannot read {PACKAGES}")
    assert keeper.stderr == b""
    reports, rest = [], keeper.stdout
    while rest.startswith(b"{"):
        head, _, rest = rest.partition(b"\n")
        reports.append(json.loads(head))
    return reports, rest.decode()


def spec_of_nobody(workspace: Path, *command: str, **fields: Any) -> ProcessSpec:
    home = workspace / "home"
    home.mkdir()
    os.chown(home, NOBODY, NOBODY)
    return ProcessSpec(
        command, directory="/", home=str(home), environment=dict(os.environ), input="", **fields
    )


async def test_run_in_a_namespace_sees_only_itself(workspace: Path, mark: str) -> None:
    end = await run(python(workspace, mark, LOOKS_AROUND, **containment_fields("namespace with users")))
    pids, *attacks = end.output.splitlines()
    assert pids == "2 1 [1, 2]"
    assert attacks == ["Operation not permitted", *["Permission denied"] * 2]


def test_namespace_works_without_privileges(workspace: Path) -> None:
    spec = spec_of_nobody(
        *(workspace, str(SYSTEM_PYTHON), "-S", "-c", LOOKS_AROUND),
        containment="namespace",
        new_user=True,
        has_own_user=True,
    )
    reports, output = keep_as_nobody(spec)
    if "error" in reports[0] and "init" not in reports[0]:
        pytest.skip(f"users may not create namespaces here: {reports[0]['error']}")
    [init, end] = reports
    assert init["init"] > 1
    assert end == {"code": 0, "error": "", "exceeded": ""}
    pids, killed, *attacks = output.splitlines()
    assert pids == "2 1 [1, 2]"
    assert killed == "done None", "the signal was sent, but an init process ignores it"
    assert attacks[:2] == ["Permission denied"] * 2


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"containment": "namespace"}, "Operation not permitted"),
        ({"containment": "user", "uid": NOBODY + 1, "gid": NOBODY}, "Operation not permitted"),
        ({"containment": "cgroup", "cgroup": "/sys/fs/cgroup/hostsvc-test"}, "Permission denied"),
    ],
)
def test_containment_without_permission_is_reported(
    workspace: Path, fields: dict[str, Any], error: str
) -> None:
    reports, _ = keep_as_nobody(spec_of_nobody(workspace, "true", **fields))
    assert reports[-1]["error"] == error
