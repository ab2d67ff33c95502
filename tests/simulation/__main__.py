"""Simulate the engine in many random worlds, in virtual time: `python -m tests.simulation --seeds 2000`.

Stops with exit code 1 at the first seed that violates an invariant, after printing its history.
`--seed` replays one seed; `--bug` searches the seeds with a known bug planted.
"""

import argparse
import sys
from contextlib import nullcontext

from tests.simulation.planted import PLANTED
from tests.simulation.simulation import Verdict, simulate

SEEDS = 2000
SEEDS_PER_PROGRESS_LINE = 500


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="number of seeds")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--seed", type=int, help="replay this seed and print its history")
    parser.add_argument("--nodes", type=int, help="number of nodes, if not as many as the seed says")
    bugs = {bug.what: bug for bug in PLANTED}
    parser.add_argument("--bug", choices=bugs, metavar="NAME", help=f"one of {', '.join(map(repr, bugs))}")
    options = parser.parse_args()
    with bugs[options.bug].planted() if options.bug else nullcontext():
        if options.seed is not None:
            verdict = simulate(options.seed, options.nodes)
            _print(verdict.history)
            return _report(verdict)
        return _search(options.first, options.seeds, options.nodes)


def _search(first: int, seeds: int, nodes: int | None) -> int:
    for count, seed in enumerate(range(first, first + seeds), start=1):
        verdict = simulate(seed, nodes)
        if verdict.violation is not None:
            _print(verdict.history)
            return _report(verdict)
        if count % SEEDS_PER_PROGRESS_LINE == 0 or count == seeds:
            _print(f"{count} seeds, no violation")
    return 0


def _report(verdict: Verdict) -> int:
    _print(f"seed {verdict.seed}: {verdict.violation or 'no violation'}")
    return 0 if verdict.violation is None else 1


def _print(line: object) -> None:
    print(line, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
