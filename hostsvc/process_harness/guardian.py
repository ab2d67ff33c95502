"""The guardian of the processes of runs, which kills them when the service cannot.

It is a process of its own, because the service may be killed, frozen or stuck. To need little memory it runs
without site-packages, so it can import nothing of hostsvc. `hostsvc.process_harness.lease` starts it:

    python -I -S guardian.py HOMES

Its input are moments of the monotonic clock; until the last one the processes may go on. It ends with the
service. HOMES begins the HOME of each run.
"""

import os
import select
import signal
import struct
import sys
import time
from contextlib import suppress

MOMENT = struct.Struct("d")
READ_BYTES = 1024 * MOMENT.size
KILL_SECONDS = 10.0
KILL_AGAIN_SECONDS = 0.05
LOOK_AGAIN_SECONDS = 0.2  # while the lease is over
REST_SECONDS = 1.0  # once nothing is left; until the next lease nothing is started
MAX_PAUSE_SECONDS = 60.0


def guard(lease: int, homes: str) -> None:
    """Kill all processes whenever the lease is over, and when the service has ended; then return."""
    mark, ends_at = f"HOME={homes}".encode(), float("inf")
    while True:
        pause = min(max(ends_at - time.monotonic(), LOOK_AGAIN_SECONDS), MAX_PAUSE_SECONDS)
        if select.select([lease], [], [], pause)[0]:
            if not (moments := os.read(lease, READ_BYTES)):
                break
            (ends_at,) = MOMENT.unpack(moments[-MOMENT.size :])
        elif time.monotonic() > ends_at and not kill_once(mark):
            time.sleep(REST_SECONDS)
    gives_up_at = time.monotonic() + KILL_SECONDS
    while kill_once(mark) and time.monotonic() < gives_up_at:
        time.sleep(KILL_AGAIN_SECONDS)


def kill_once(mark: bytes) -> bool:
    """Kill the processes whose environment contains this. Return whether there were any."""
    found = [int(name) for name in os.listdir("/proc") if name.isdigit() and mark in _environment(name)]
    for process in found:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    return bool(found)


def _environment(process: str) -> bytes:
    try:
        with open(f"/proc/{process}/environ", "rb") as variables:
            return variables.read()
    except OSError:  # it is gone, or of somebody else
        return b""


if __name__ == "__main__":
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):  # systemd sends them to all at a stop
        signal.signal(number, signal.SIG_IGN)
    guard(sys.stdin.fileno(), sys.argv[1])
