"""The engine in 2,000 random worlds: what must never happen does not, and if it did it would be seen."""

import gc
import os
import subprocess
import sys

import pytest

from supervisors.engine.registry import Registry
from tests.simulation.__main__ import SEEDS, main
from tests.simulation.planted import PLANTED, PlantedBug
from tests.simulation.simulation import simulate

SEEDS_IN_A_TEST = 125
REPLAYED = (1, 4, 15)


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_IN_A_TEST))
def test_what_must_never_happen_does_not(first: int) -> None:
    for seed in range(first, first + SEEDS_IN_A_TEST):
        verdict = simulate(seed)
        assert verdict.violation is None, f"seed {seed}: {verdict.violation}\n{verdict.history}"


@pytest.mark.parametrize("bug", PLANTED, ids=str)
def test_a_planted_bug_is_found(bug: PlantedBug) -> None:
    with bug.planted():
        found = next((seed for seed in range(SEEDS) if simulate(seed).violation), None)

    assert found is not None, f"{SEEDS} seeds did not find {bug}"
    assert simulate(found).violation is None, "and it is the bug that was found"


def test_a_seed_replays_exactly_in_another_process() -> None:
    """Whatever the order of its sets and the addresses of its objects."""
    for seed in REPLAYED:
        here = str(simulate(seed).history)
        for hash_seed in ("0", "1"):
            there = subprocess.run(
                [sys.executable, "-m", "tests.simulation", "--seed", str(seed)],
                env={**os.environ, "PYTHONHASHSEED": hash_seed},
                capture_output=True,
                text=True,
                check=True,
            )
            assert there.stdout == f"{here}\nseed {seed}: no violation\n"


def test_a_failing_seed_tells_its_history() -> None:
    with PLANTED[2].planted():
        verdict = next(found for found in map(simulate, range(SEEDS)) if found.violation)

    assert f"!! {verdict.violation}" in str(verdict.history)
    assert "life 1 of the service begins" in str(verdict.history)


HOT_LOOP = PlantedBug(
    "a look that leads to the next one at once",
    Registry._handle_signals,
    "outcome = await supervisor.reconcile()",
    "outcome = await supervisor.reconcile(); self.tell(supervisor.agent_id, Signal.DUE)",
)
STUBBORN_LOOP = PlantedBug(
    "a hot loop that nothing ends",
    Registry._handle_signals,
    "outcome = await supervisor.reconcile()",
    "while True:\n"
    "            try:\n"
    "                await asyncio.sleep(0)\n"
    "            except asyncio.CancelledError:\n"
    "                pass",
)


@pytest.mark.parametrize("bug", [HOT_LOOP, STUBBORN_LOOP], ids=str)
def test_a_seed_that_goes_round_without_end_tells_its_history_and_replays(
    bug: PlantedBug, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["simulate", "--seed", "1"])
    with bug.planted():
        verdict = simulate(1)
        assert main() == 1
    gc.collect()  # nothing is heard of what would not end

    assert "Progress violated" in str(verdict.violation)
    assert capsys.readouterr() == (f"{verdict.history}\nseed 1: {verdict.violation}\n", "")
    assert "life 1 of the service begins" in str(verdict.history)
