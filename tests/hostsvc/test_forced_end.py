"""The forced end: a process that closes too slowly ends with its exit code, one that is done goes on."""

import subprocess
import sys
from time import monotonic

from hostsvc.forced_end import EXIT_CODE, force_end_after

NEVER_CLOSES = """
import asyncio
from hostsvc.forced_end import force_end_after

async def close():
    force_end_after(0.05, "another instance leads")
    try:
        await asyncio.sleep(3600)
    finally:
        await asyncio.sleep(3600)

asyncio.run(close())
"""


def test_process_that_closes_too_slowly_ends() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", NEVER_CLOSES], stdout=subprocess.PIPE, text=True, timeout=60, check=False
    )
    assert ended.returncode == EXIT_CODE
    assert "another instance leads" in ended.stdout


def test_cancelled_end_does_not_come() -> None:
    timer = force_end_after(0.05, "another instance leads")
    timer.cancel()
    began = monotonic()
    timer.join()
    assert monotonic() - began < 5
