"""The memory of the process, in a process of its own."""

import gc
import subprocess
import sys

import pytest

from hostsvc.memory import ALLOCATIONS_BETWEEN_COLLECTIONS, tune_garbage_collection

MAX_LEFT_BYTES = 20 << 20

# Between two long texts stands a short one that stays, so that the heap could not shrink.
LEAVE_HOLES = """
from hostsvc.memory import return_large_blocks

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

if not return_large_blocks():
    raise SystemExit(2)
bytes(1_100_000)  # the first large block that is freed
before = resident()
long, short = [], []
for _ in range(100):
    long.append(b"x" * 1_000_000)
    short.append(b"x" * 5_000)
del long
print(resident() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_freed_texts_leave_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", LEAVE_HOLES], capture_output=True, text=True, check=False)
    if done.returncode == 2:
        pytest.skip("the C library has no mallopt")
    assert int(done.stdout) < MAX_LEFT_BYTES, done.stderr


def test_garbage_collection_is_seldom() -> None:
    before = gc.get_threshold()
    try:
        tune_garbage_collection()
        assert gc.get_threshold()[0] == ALLOCATIONS_BETWEEN_COLLECTIONS
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
