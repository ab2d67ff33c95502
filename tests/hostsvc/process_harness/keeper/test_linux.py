"""System calls and /proc: read as the kernel writes them, with errors as OSError."""

import os
import subprocess
import sys

import pytest

from hostsvc.process_harness.keeper.linux import (
    CLONE_NEWNS,
    children_of,
    mount,
    prctl,
    process_use,
    proportional_bytes,
    unshare,
)

NO_PROCESS = 2**22 + 1  # over the maximum of the kernel
MEGABYTE = 1_048_576


def test_use_of_a_process_grows_with_what_it_does() -> None:
    use = process_use(os.getpid())
    assert use is not None
    assert use.threads >= 1
    assert use.resident_bytes > 10 * MEGABYTE
    assert use.cpu_seconds > 0
    share = proportional_bytes(os.getpid())
    assert share is not None
    assert MEGABYTE < share <= 2 * use.resident_bytes


def test_children_of_a_process_are_listed() -> None:
    with subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert child.pid in children_of(os.getpid())
        assert children_of(child.pid) == []
        assert child.stdin is not None
        child.stdin.write(b"\n")


def test_process_that_is_gone_uses_nothing() -> None:
    assert process_use(NO_PROCESS) is None
    assert proportional_bytes(NO_PROCESS) is None
    assert children_of(NO_PROCESS) == []


def test_refused_system_call_raises_with_its_reason() -> None:
    with pytest.raises(OSError, match="Invalid argument"):
        prctl(-1, 0)
    with pytest.raises(OSError, match="Invalid argument"):
        unshare(CLONE_NEWNS | 1)
    with pytest.raises(OSError, match=r"No such file or directory|Operation not permitted"):
        mount("none", "/nowhere", "proc", 0)
