"""Hot paths as ratios against a bare handler measured in the same run; exit 1 if one misses its bar.

Absolute times depend on the machine, ratios hardly: nothing here is judged by the clock.
"""

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hostsvc.embedded_postgres import EmbeddedPostgres
from tests.benchmarks import create_notification


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


def main() -> int:
    with _fresh_directory() as directory, _fresh_database(directory) as database_url:
        row = asyncio.run(create_notification.measure(directory, database_url))
    print(row)  # noqa: T201
    return 0 if row.met else 1


if __name__ == "__main__":
    sys.exit(main())
