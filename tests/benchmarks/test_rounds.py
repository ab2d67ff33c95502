"""Rounds of several sides: their order, and the figures of their samples."""

from tests.benchmarks.rounds import BARE, Pace, Sample, compare, interleave, orders

PACE = Pace(seconds=4.0, rounds=3, warm_up_seconds=2.0)


def sample(rate: float, server_cpu: float = 0.1, postgres_cpu: float = 0.1) -> Sample:
    return Sample(rate, operations=1000, server_cpu=server_cpu, postgres_cpu=postgres_cpu, busy=0.25)


def test_orders_reverse_every_other_round() -> None:
    assert orders(["a", "b", "c"], 3) == [["a", "b", "c"], ["c", "b", "a"], ["a", "b", "c"]]


async def test_interleave_warms_up_and_alternates() -> None:
    measured: list[tuple[str, float]] = []

    async def ours(seconds: float) -> Sample:
        measured.append(("ours", seconds))
        return sample(rate=len(measured))

    async def theirs(seconds: float) -> Sample:
        measured.append(("theirs", seconds))
        return sample(rate=len(measured))

    samples = await interleave({"ours": ours, "theirs": theirs}, PACE)
    assert measured[:2] == [("ours", 2.0), ("theirs", 2.0)]
    assert [name for name, _ in measured[2:]] == ["ours", "theirs", "theirs", "ours", "ours", "theirs"]
    assert [one.rate for one in samples["ours"]] == [3, 6, 7]


def test_sample_costs_are_per_operation() -> None:
    one = sample(rate=500.0, server_cpu=0.3, postgres_cpu=0.2)
    assert (one.server_ms, one.postgres_ms, one.cpu_ms) == (0.3, 0.2, 0.5)


def test_compare_judges_only_against_the_bare_handler() -> None:
    samples = {"service": [sample(300.0)], "main": [sample(150.0)], BARE: [sample(100.0)]}
    figures = {one.name: one for one in compare(samples, rate_bar=3.5, cpu_bar=0.5)}
    assert figures["rate, service / main"].value == 2.0
    assert figures["rate, service / main"].met
    assert figures["CPU, service / main"].met
    assert not figures["rate, service / bare"].met
    assert not figures["CPU, service / bare"].met
    assert figures["load generator busy, at most"].value == 25.0
