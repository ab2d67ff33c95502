"""The engine in many random worlds, in virtual time: `python -m tests.simulation --seeds 2000`.

Exit 1 at the first seed that breaks an invariant, with its history; `--seed` replays one.
"""

import argparse
import sys

from tests.simulation.simulation import Verdict, simulate

SEEDS = 2000
SEEDS_BETWEEN_SIGNS_OF_LIFE = 500


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="this one alone, with its history")
    asked = parser.parse_args()
    if asked.seed is not None:
        verdict = simulate(asked.seed)
        _say(verdict.history)
        return _judge(verdict)
    for count, seed in enumerate(range(asked.first, asked.first + asked.seeds), start=1):
        verdict = simulate(seed)
        if verdict.violation is not None:
            _say(verdict.history)
            return _judge(verdict)
        if count % SEEDS_BETWEEN_SIGNS_OF_LIFE == 0 or count == asked.seeds:
            _say(f"{count} seeds, no violation")
    return 0


def _judge(verdict: Verdict) -> int:
    _say(f"seed {verdict.seed}: {verdict.violation or 'no violation'}")
    return 0 if verdict.violation is None else 1


def _say(line: object) -> None:
    print(line, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
