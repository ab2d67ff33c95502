"""A wall clock that a test may set forward and back under a running service, by libfaketime."""

import os
from datetime import UTC, datetime, timedelta
from importlib.metadata import files
from pathlib import Path

from tests.acceptance.process import MODULE, Launch, launched_by

LIBRARY = "libfaketime.so.1"


class SteppedClock:
    """The wall clock of the services that `launch` starts: the machine's plus an offset.

    Their monotonic clock is the machine's, as when an operator sets the time.
    """

    def __init__(self, directory: Path) -> None:
        self._file = directory / "offset"
        self.offset = timedelta()
        self.set(self.offset)

    def set(self, offset: timedelta) -> None:
        """Let the clock be ahead of the machine's by this from now on."""
        written = self._file.with_suffix(".new")
        written.write_text(f"{offset.total_seconds():+.0f}\n")
        os.replace(written, self._file)  # at once: a reader never finds a half-written file
        self.offset = offset

    def now(self) -> datetime:
        """Return what the clock shows."""
        return datetime.now(UTC) + self.offset

    @property
    def launch(self) -> Launch:
        """Return how to start `hostsvc` in a new interpreter that sees this clock."""
        variables = {
            "LD_PRELOAD": str(_library()),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        return launched_by(*MODULE, **variables)


def _library() -> Path:
    """Return the shared library inside the installed package, which is never imported."""
    [library] = [Path(str(file.locate())) for file in files("libfaketime") or () if file.name == LIBRARY]
    return library
