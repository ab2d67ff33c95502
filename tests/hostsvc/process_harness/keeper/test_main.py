"""The protocol of the keeper, spoken to it directly; `test_kept_process` tests what it does to processes."""

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from hostsvc.process_harness.kept_process import KEEPER, ProcessSpec
from tests.paths import ROOT

PRINT_DUMPABLE = """
import json, sys
sys.path.append(sys.argv[1])
from hostsvc.process_harness.keeper import linux, main
def start_command(*_):
    print(linux.LIBC.prctl(3, 0, 0, 0, 0), flush=True)
    sys.exit()
main.start_command = start_command
main.Keeper(json.loads(sys.stdin.readline()))
"""


def spec_of(home: Path, *command: str, **fields: Any) -> bytes:
    spec = ProcessSpec(command, directory=str(home), home=str(home), environment=dict(os.environ), input="")
    return json.dumps(asdict(spec) | fields).encode() + b"\n"


def keep(*pieces: bytes) -> tuple[dict[str, Any] | None, bytes]:
    """Run a keeper on this input, which stays open until it ends. Return its report and the output."""
    with subprocess.Popen(KEEPER, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as keeper:
        assert keeper.stdin is not None
        assert keeper.stdout is not None
        for piece in pieces:
            keeper.stdin.write(piece)
            keeper.stdin.flush()
        if not pieces:
            keeper.stdin.close()
        head, _, output = keeper.stdout.read().partition(b"\n")
    return (json.loads(head) if head else None), output


def test_report_has_exit_code_and_output(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, "sh", "-c", "cat; echo bye >&2; exit 3", input="hello\n")
    assert keep(spec) == ({"code": 3, "error": "", "exceeded": ""}, b"hello\nbye\n")


def test_spec_may_arrive_in_pieces(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, "true")
    assert keep(spec[:10], spec[10:]) == ({"code": 0, "error": "", "exceeded": ""}, b"")


def test_byte_after_the_spec_terminates_the_command(tmp_path: Path) -> None:
    report, _ = keep(spec_of(tmp_path, "sleep", "600") + b".")
    assert report == {"code": -15, "error": "", "exceeded": ""}


def test_keeper_without_a_spec_ends_without_a_report() -> None:
    assert keep() == (None, b"")


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"command": ["no-such-program"]}, "No such file or directory"),
        ({"directory": "/nowhere"}, "No such file or directory"),
        ({"environment": {"A": 1}}, "expected str, bytes or os.PathLike object, not int"),
    ],
)
def test_report_says_why_the_command_did_not_start(
    tmp_path: Path, fields: dict[str, Any], error: str
) -> None:
    report, output = keep(spec_of(tmp_path, "true", **fields))
    assert report == {"code": 127, "error": error, "exceeded": ""}
    assert output == b""


def test_keeper_cannot_be_traced_when_command_starts(tmp_path: Path) -> None:
    python = (sys.executable, "-I", "-S", "-c", PRINT_DUMPABLE, str(ROOT))
    answer = subprocess.run(python, input=spec_of(tmp_path, "true"), capture_output=True, check=True)
    assert answer.stdout == b"0\n"


def test_input_file_has_no_name_in_the_home(tmp_path: Path) -> None:
    report, output = keep(spec_of(tmp_path, "ls", "-A", input="secret"))
    assert (report, output) == ({"code": 0, "error": "", "exceeded": ""}, b"")
