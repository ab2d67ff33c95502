"""The parts of the demonstration; that all of it succeeds is tested in `test_commands`."""

from typing import Any

import pytest

from hostsvc.cli import demo
from hostsvc.cli.demo import StepFailed, StepReport, open_client, span_tree
from supervisors.clock import SystemClock
from tests.hostsvc.cli.answers import serving_json


def test_check_reports_what_is_true_and_fails_otherwise() -> None:
    lines: list[str] = []
    report = StepReport(SystemClock(), lines.append)
    report.check(True, "the agent sleeps")
    with pytest.raises(StepFailed, match=r"^the agent wakes$"):
        report.check(False, "the agent wakes")
    [line] = lines
    assert line.endswith(" s  ✓ the agent sleeps")


async def test_wait_for_polls_until_there_is_a_result() -> None:
    results = iter([None, None, 7])

    async def poll() -> int | None:
        return next(results)

    assert await StepReport(SystemClock(), print).wait_for(poll, "a number comes") == 7


async def test_wait_for_fails_after_its_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    async def poll() -> None:
        return None

    monkeypatch.setattr(demo, "STEP_TIMEOUT_SECONDS", 0.01)
    with pytest.raises(StepFailed, match=r"^a number comes, within 0\.01 s$"):
        await StepReport(SystemClock(), print).wait_for(poll, "a number comes")


async def test_client_fails_on_unexpected_responses() -> None:
    async with serving_json({"/known": {"a": 1}}) as url, open_client(url, "Bearer x") as client:
        assert await client.get("/known") == {"a": 1}
        with pytest.raises(StepFailed, match="GET /unknown returns 200, got 404"):
            await client.get("/unknown")
        with pytest.raises(StepFailed, match="POST /known returns 201, got 200"):
            await client.post("/known")


async def test_client_fails_if_nobody_answers() -> None:
    async with serving_json({}) as url:
        pass
    async with open_client(url) as client:
        with pytest.raises(StepFailed, match="GET / returns JSON: ClientConnectorError"):
            await client.get("/")


def test_span_tree_indents_children_below_their_parents() -> None:
    spans: list[dict[str, Any]] = [
        {"id": "1", "parent": None, "name": "run", "duration_ms": 9},
        {"id": "2", "parent": "1", "name": "turn", "duration_ms": 5},
        {"id": "3", "parent": "2", "name": "tool", "duration_ms": 1},
        {"id": "4", "parent": "1", "name": "sleep", "duration_ms": 2},
    ]
    assert span_tree(spans, None) == ["run  9 ms", "   turn  5 ms", "      tool  1 ms", "   sleep  2 ms"]
