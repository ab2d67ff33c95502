"""The comparison with the committed baseline."""

import json
from pathlib import Path

from tests.benchmarks.baseline import BASELINE, machine, read_baseline, remarks, write_baseline
from tests.benchmarks.catalogue import ROWS
from tests.benchmarks.figures import Figure, Result, Unit

EARLIER = {"get": {"rate, service / bare": 2.0, "service: server": 0.1}}


def result(rate: float, cpu: float) -> Result:
    figures = [
        Figure("rate, service / bare", rate, Unit.RATIO, higher_is_better=True),
        Figure("service: server", cpu, Unit.CPU),
        Figure("service: rate", 5000.0, Unit.PER_SECOND),
    ]
    return Result("get", "GET", figures)


def test_remarks_name_figures_beyond_the_margin() -> None:
    found = remarks(result(rate=1.6, cpu=0.11), EARLIER)
    assert found == {"rate, service / bare": "baseline 2: WORSE by 25%", "service: server": "baseline 0.1"}


def test_row_without_baseline_has_no_remarks() -> None:
    assert remarks(result(rate=1.6, cpu=0.11), {}) == {}


def test_written_baseline_keeps_other_rows_and_no_rates(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    path.write_text(json.dumps({"machine": {}, "rows": {"posts": {"rate": 1.5}, "get": {"old": 1.0}}}))
    write_baseline([result(rate=1.9, cpu=0.12)], path)
    assert read_baseline(path) == {
        "posts": {"rate": 1.5},
        "get": {"rate, service / bare": 1.9, "service: server": 0.12},
    }
    assert json.loads(path.read_text())["machine"] == machine()


def test_committed_baseline_has_only_existing_rows() -> None:
    assert set(read_baseline(BASELINE)) <= set(ROWS)
