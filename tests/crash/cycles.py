"""How often crash tests repeat a fault: a few times in `make test`, `CYCLES` times in `make crash`."""

import os

import pytest

CYCLES = int(os.environ.get("HOSTSVC_CRASH_CYCLES", "30"))
STANDSTILL_SECONDS = min(30.0, CYCLES / 3)


def repeated(everyday: int, full: int) -> pytest.MarkDecorator:
    """Parametrize a test with the number of its cycles; the full number is slow."""
    return pytest.mark.parametrize("cycles", [everyday, pytest.param(full, marks=pytest.mark.slow)])
