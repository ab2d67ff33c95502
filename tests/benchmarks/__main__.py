"""Hot paths as ratios against a bare handler measured in the same run; exit 1 if one misses its bar.

Absolute times depend on the machine, ratios hardly: nothing here is judged by the clock.
By name only some are measured: `python -m tests.benchmarks create cycles wakes reminders turns waiting
search streams waterfall`.
"""

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from hostsvc.embedded_postgres import EmbeddedPostgres
from tests.benchmarks import (
    create_notification,
    document_search,
    event_streams,
    full_cycle,
    punctuality,
    turns,
    wake_context,
    waterfall,
)


class Row(Protocol):
    """What was measured, and whether it is as good as it has to be."""

    @property
    def met(self) -> bool: ...


MEASURES: dict[str, Callable[[Path, str], Coroutine[Any, Any, Row]]] = {
    "create": create_notification.measure,
    "cycles": full_cycle.measure,
    "wakes": punctuality.measure_wakes,
    "reminders": punctuality.measure_reminders,
    "turns": turns.measure,
    "waiting": turns.measure_waiting,
    "context": wake_context.measure,
    "search": document_search.measure,
    "streams": event_streams.measure,
    "waterfall": waterfall.measure,
}


@contextmanager
def _fresh_directory() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="hostsvc-bench-"))
    try:
        yield directory
    finally:
        shutil.rmtree(directory)


@contextmanager
def _fresh_database(directory: Path) -> Iterator[str]:
    server = EmbeddedPostgres(directory / "data")
    try:
        yield server.start()
    finally:
        server.stop()


def main(*names: str) -> int:
    all_met = True
    for name in names or MEASURES:
        with _fresh_directory() as directory, _fresh_database(directory) as database_url:
            row = asyncio.run(MEASURES[name](directory, database_url))
        print(row, flush=True)  # noqa: T201
        all_met = all_met and row.met
    return 0 if all_met else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
