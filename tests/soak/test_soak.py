"""A soak of seconds: every fault is injected once, and the service survives all of them."""

from pathlib import Path

import pytest
from rich.console import Console

from tests.acceptance.conftest import directory
from tests.acceptance.process import Launch
from tests.soak.__main__ import Pace, soak
from tests.soak.faults import FAULTS

__all__ = ["directory"]

SHORT = Pace(total_seconds=0, fault_seconds=0.5, load_seconds=0.3, quiet_seconds=0.2, documents=10)


@pytest.mark.slow
async def test_service_survives_each_fault_of_a_soak(directory: Path, launch: Launch) -> None:
    samples = await soak(directory, SHORT, Console(quiet=True), launch=launch)
    assert len(samples) == len(FAULTS)
    assert all(sample.tasks > 0 and sample.descriptors > 0 for sample in samples)
