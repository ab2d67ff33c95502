"""The benchmarks: hot paths against references measured in the same run. docs/performance.md explains them.

    python -m tests.benchmarks [--quick] [--against REF] [--output FILE] [ROW …]

Exit 1 if a bar is missed. Without names all rows are measured.
"""

import argparse
import asyncio
import json
import signal
import sys
import tempfile
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NoReturn

from tests.benchmarks import (
    backup,
    cycles,
    document_search,
    event_streams,
    far_wakes,
    flood,
    hooks,
    hot_agents,
    lists,
    long_list,
    mcp_calls,
    million,
    nodes,
    posts,
    reads,
    reminders,
    span_export,
    spans,
    steady,
    turns,
    usage_summary,
    wake_context,
    waterfall,
)
from tests.benchmarks.bench import Bench
from tests.benchmarks.figures import Result, show
from tests.benchmarks.rounds import QUICK, Pace
from tests.benchmarks.trees import Tree, other_tree
from tests.paths import ROOT

ROWS: Mapping[str, Callable[[Bench], Coroutine[Any, Any, Result]]] = {
    "get": reads.measure_agents,
    "reads": reads.measure_others,
    "list": lists.measure,
    "longlist": long_list.measure,
    "posts": posts.measure,
    "hooks": hooks.measure,
    "mcp": mcp_calls.measure,
    "spans": spans.measure,
    "usage": usage_summary.measure,
    "cycles": cycles.measure,
    "steady": steady.measure,
    "flood": flood.measure,
    "million": million.measure,
    "backup": backup.measure,
    "export": span_export.measure,
    "reminders": reminders.measure,
    "turns": turns.measure,
    "waiting": turns.measure_waiting,
    "context": wake_context.measure,
    "search": document_search.measure,
    "streams": event_streams.measure,
    "waterfall": waterfall.measure,
    "nodes": nodes.measure,
    "slowed": nodes.measure_slowed,
    "far": far_wakes.measure,
    "hot": hot_agents.measure,
}
OUTPUT = ROOT / ".benchmarks" / "results.json"


def main(arguments: Sequence[str]) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    if unknown := set(options.rows) - set(ROWS):
        parser.error(f"no row {', '.join(sorted(unknown))}; there are {', '.join(ROWS)}")
    signal.signal(signal.SIGTERM, _end)
    results: list[Result] = []
    with other_tree(options.against) if options.against else nullcontext() as against:
        for name in options.rows or ROWS:
            results.append(_measure(name, options.quick, against))
            print(show(results[-1]), flush=True)  # noqa: T201
    _write(options.output, results)
    return 0 if all(result.met for result in results) else 1


def _end(*_: object) -> NoReturn:
    """End like after Ctrl-C, so that no server is left behind."""
    sys.exit(1)


def _measure(name: str, is_quick: bool, against: Tree | None) -> Result:
    with tempfile.TemporaryDirectory(prefix="hostsvc-bench-") as directory:
        Path(directory).chmod(0o711)  # PostgreSQL, which does not run as root, passes through it
        bench = Bench(Path(directory), QUICK if is_quick else Pace(), is_quick, against)
        return asyncio.run(ROWS[name](bench))


def _write(path: Path, results: Sequence[Result]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"rows": [result.as_json() for result in results]}
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__.split("\n")[0])
    parser.add_argument("rows", nargs="*", metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--quick", action="store_true", help="short rounds")
    parser.add_argument("--against", metavar="REF", help="also measure the code of this commit, in turn")
    parser.add_argument("--output", type=Path, default=OUTPUT, metavar="FILE", help="the figures as JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
