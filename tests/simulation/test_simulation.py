"""The engine in many random worlds: no invariant is violated, and planted bugs are found."""

import gc
import os
import subprocess
import sys
from itertools import chain

import pytest

from supervisors.engine.registry import Registry
from tests.simulation.__main__ import main
from tests.simulation.planted import PLANTED, PlantedBug
from tests.simulation.simulation import Verdict, simulate

SEEDS_PER_TEST = 25
TESTED_SEEDS = 100  # of the SEEDS of `make simulate`; the first SEEDS_PER_TEST of them every day
SEARCHED_SEEDS = 50
REPLAYED = {"0": 1, "1": 15}  # a seed for each hash seed


def test_random_worlds_violate_no_invariant() -> None:
    require_no_violation(range(SEEDS_PER_TEST))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(SEEDS_PER_TEST, TESTED_SEEDS, SEEDS_PER_TEST))
def test_more_random_worlds_violate_no_invariant(first: int) -> None:
    require_no_violation(range(first, first + SEEDS_PER_TEST))


def require_no_violation(seeds: range) -> None:
    for seed in seeds:
        verdict = simulate(seed)
        assert verdict.violation is None, f"seed {seed}: {verdict.violation}\n{verdict.history}"


@pytest.mark.slow
@pytest.mark.parametrize("bug", PLANTED, ids=str)
def test_planted_bug_is_found_by_its_seed(bug: PlantedBug) -> None:
    found = find(bug, chain([bug.seed], range(SEARCHED_SEEDS)))

    assert found is not None, f"find another seed: python -m tests.simulation --bug {bug.what!r}"
    assert simulate(found.seed).violation is None, "the seed finds something else than the planted bug"


def find(bug: PlantedBug, seeds: "chain[int] | range") -> Verdict | None:
    """Return the first verdict with a violation while the bug is planted; None if there is none."""
    with bug.planted():
        found = next((verdict for verdict in map(simulate, seeds) if verdict.violation), None)
    assert found is None or "NameError" not in str(found.violation), (
        "the planted line names something unknown"
    )
    return found


@pytest.mark.slow
def test_seed_replays_exactly_in_another_process() -> None:
    """Neither the order of sets nor the addresses of objects change the history."""
    for hash_seed, seed in REPLAYED.items():
        here = str(simulate(seed).history)
        there = subprocess.run(
            [sys.executable, "-m", "tests.simulation", "--seed", str(seed)],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert there.stdout == f"{here}\nseed {seed}: no violation\n"


HOT_LOOP = PlantedBug(
    "each reconciliation causes the next one",
    Registry._handle_signals,
    "outcome = await supervisor.reconcile()",
    "outcome = await supervisor.reconcile(); self.tell(supervisor.agent_id, Signal.DUE)",
    1,
)
STUBBORN_LOOP = PlantedBug(
    "a loop ignores its cancellation",
    Registry._handle_signals,
    "outcome = await supervisor.reconcile()",
    "while True:\n"
    "            try:\n"
    "                await asyncio.sleep(0)\n"
    "            except asyncio.CancelledError:\n"
    "                pass",
    1,
)


@pytest.mark.slow
@pytest.mark.parametrize("bug", [HOT_LOOP, STUBBORN_LOOP], ids=str)
def test_seed_that_never_ends_prints_its_history_and_replays(
    bug: PlantedBug, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["simulate", "--seed", str(bug.seed)])
    with bug.planted():
        verdict = simulate(bug.seed)
        assert main() == 1
    gc.collect()  # a task that would not end prints nothing when it is collected

    assert "Progress violated" in str(verdict.violation)
    assert capsys.readouterr() == (f"{verdict.history}\nseed {bug.seed}: {verdict.violation}\n", "")
    assert "life 1 of the service begins" in str(verdict.history)
