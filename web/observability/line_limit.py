"""A limit on log lines that clients can cause as often as they like."""

from collections.abc import Callable
from typing import Any

WINDOW_SECONDS = 60.0


class LineLimit:
    """Writes the first lines of each event a minute, and counts the others for the next line."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._windows: dict[str, tuple[float, int, int]] = {}  # its end, the lines, and those left out

    def write(self, write: Callable[..., object], event: str, max_lines: int = 1, **values: Any) -> None:
        """Write the line, if the minute has room for it. `event` is one of a few constants."""
        now = self._monotonic()
        end, lines, left_out = self._windows.get(event, (now, 0, 0))
        if now >= end:
            end, lines = now + WINDOW_SECONDS, 0
        if lines == max_lines:
            self._windows[event] = (end, lines, left_out + 1)
            return
        self._windows[event] = (end, lines + 1, 0)
        write(event, **values, **({"left_out": left_out} if left_out else {}))
