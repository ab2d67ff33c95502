"""Processor time of a process and its descendants, also of those that have ended."""

import asyncio
import os
import sys

from tests.benchmarks.process_tree import cpu_seconds, own_cpu_seconds, resident_bytes

WORK = "import time\nwhile time.process_time() < 0.2: pass"
PARENT = f"""
import subprocess, sys
subprocess.run([sys.executable, "-c", {WORK!r}])
print("worked", flush=True)
sys.stdin.read()
"""


async def test_cpu_of_ended_children_counts() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PARENT), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    await process.stdout.readline()
    in_all, own = cpu_seconds(process.pid), own_cpu_seconds(process.pid)
    await process.communicate(b"")
    assert in_all - own >= 0.15


def test_cpu_of_a_tree_includes_its_root() -> None:
    assert 0 < own_cpu_seconds(os.getpid()) <= cpu_seconds(os.getpid())


def test_resident_memory_is_that_of_a_python() -> None:
    assert 5 * 2**20 < resident_bytes(os.getpid()) < 2**34
