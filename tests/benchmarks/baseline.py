"""The committed figures that each run is compared with: ratios and processor times, never rates.

A rate tells more about the machine than about the service. The file describes the machine, because processor
times depend on it, too.
"""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.figures import Result

BASELINE = Path(__file__).with_name("baseline.json")
MARGIN = 0.15  # the rounds of a quiet machine differ by less

Rows = Mapping[str, Mapping[str, float]]


def read_baseline(path: Path = BASELINE) -> Rows:
    """Return the figures of each row by name; none if there is no file."""
    rows: Rows = json.loads(path.read_text())["rows"] if path.exists() else {}
    return rows


def remarks(result: Result, baseline: Rows) -> dict[str, str]:
    """Return a remark on each figure of the baseline: the earlier value, and whether it got worse."""
    earlier = baseline.get(result.row, {})
    return {
        figure.name: _remark(figure.worse_by(earlier[figure.name]), earlier[figure.name])
        for figure in result.figures
        if figure.name in earlier
    }


def write_baseline(results: Sequence[Result], path: Path = BASELINE) -> None:
    """Replace the rows of these results, and keep those of others."""
    rows = {**read_baseline(path), **{result.row: result.portable() for result in results}}
    text = json.dumps(
        {"machine": machine(), "rows": dict(sorted(rows.items()))}, indent=2, ensure_ascii=False
    )
    path.write_text(text + "\n")


def machine() -> dict[str, Any]:
    """Describe this machine."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def _remark(worse_by: float, earlier: float) -> str:
    if worse_by > MARGIN:
        return f"baseline {earlier:.3g}: WORSE by {worse_by:.0%}"
    return f"baseline {earlier:.3g}"


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())
