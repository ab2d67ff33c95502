"""Figures: when a bar is met, what is worse than before, and the order statistics."""

import pytest

from tests.benchmarks.figures import Figure, Result, Unit, median_ratio, percentile, show


def test_figure_at_its_bar_is_met() -> None:
    assert Figure("rate", 1.5, Unit.RATIO, at_least=1.5).met
    assert Figure("p99", 10.0, Unit.MS, at_most=10.0).met


def test_figure_beyond_its_bar_is_not_met() -> None:
    assert not Figure("rate", 1.49, Unit.RATIO, at_least=1.5).met
    assert not Figure("p99", 10.1, Unit.MS, at_most=10.0).met


def test_result_with_one_missed_bar_is_not_met() -> None:
    figures = [Figure("rate", 2.0, Unit.RATIO, at_least=1.5), Figure("p99", 11.0, Unit.MS, at_most=10.0)]
    assert not Result("posts", "POST", figures).met


def test_lower_rate_and_higher_cost_are_worse() -> None:
    rate = Figure("rate", 1.0, Unit.RATIO, higher_is_better=True)
    cost = Figure("cost", 3.0, Unit.CPU)
    assert rate.worse_by(1.5) == pytest.approx(0.5)
    assert rate.worse_by(0.5) < 0
    assert cost.worse_by(2.0) == pytest.approx(0.5)
    assert cost.worse_by(4.0) < 0


def test_only_ratios_and_processor_times_are_portable() -> None:
    figures = [Figure(unit.name, 1.0, unit) for unit in Unit]
    assert Result("all", "All units", figures).portable() == {"RATIO": 1.0, "CPU": 1.0}


@pytest.mark.parametrize(
    ("share", "expected"), [(0.0, 1), (0.5, 5), (0.9, 9), (0.91, 10), (0.99, 10), (1.0, 10)]
)
def test_percentile_covers_its_share_of_values(share: float, expected: float) -> None:
    assert percentile(share, [10, 9, 8, 7, 6, 5, 4, 3, 2, 1]) == expected


def test_median_ratio_pairs_values_of_one_round() -> None:
    assert median_ratio([2.0, 4.0, 60.0], [1.0, 4.0, 20.0]) == 2.0


def test_shown_row_names_missed_bars() -> None:
    figures = [Figure("rate, service / bare", 1.2, Unit.RATIO, at_least=1.5)]
    shown = show(Result("posts", "POST", figures), {"rate, service / bare": "baseline 1.6: WORSE by 33%"})
    assert "at least 1.5: NOT MET; baseline 1.6: WORSE by 33%" in shown
