"""`hostsvc` on a processor that is many times slower: its event loop stands still at each POST and each run.

    python -m tests.benchmarks.slowed serve …

The loop is blocked without work, so a machine with two cores has room for many such nodes; where it has not,
HOSTSVC_BENCH_SLOWNESS=4 blocks each four times as long.
"""

import os
import time
from typing import Any

from hostsvc.cli.commands import main
from storage.notifications.notifications import Notifications
from supervisors.harness.builtin import BuiltinHarness

SLOWNESS = float(os.environ.get("HOSTSVC_BENCH_SLOWNESS", "1"))
POST_SECONDS = 0.005 * SLOWNESS
RUN_SECONDS = 0.02 * SLOWNESS


def block(owner: type, method: str, seconds: float) -> None:
    """Have each call of a method block the event loop first."""
    original = getattr(owner, method)

    def blocking(*args: Any, **kwargs: Any) -> Any:
        time.sleep(seconds)
        return original(*args, **kwargs)

    setattr(owner, method, blocking)


if __name__ == "__main__":
    block(Notifications, "insert", POST_SECONDS)
    block(BuiltinHarness, "execute", RUN_SECONDS)
    main(prog_name="hostsvc")
