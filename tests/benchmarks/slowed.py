"""`hostsvc` on a processor that is many times slower: its event loop stands still at each POST and each run.

    python -m tests.benchmarks.slowed serve …

The loop is blocked without work, so a machine with two cores has room for many such nodes.
"""

import time
from typing import Any

from hostsvc.cli.commands import main
from storage.notifications.notifications import Notifications
from supervisors.harness.builtin import BuiltinHarness

POST_SECONDS = 0.005
RUN_SECONDS = 0.02


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
