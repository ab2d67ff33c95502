"""The log of a run: tool calls, errors and cleared notifications, all bounded."""

from decimal import Decimal

from storage.history.journals import MAX_SEARCHED, MAX_TOOLS, JournalFacts, ToolUse
from storage.ids import new_id
from supervisors.engine.run_log import OTHERS, RunLog


def test_log_counts_calls_and_keeps_last_error() -> None:
    log, cleared = RunLog(), new_id()
    log.record_call("sleep", "first")
    log.record_call("memory")
    log.record_call("sleep", "second")
    log.record_cleared(cleared)
    log.record_cleared(cleared)
    assert log.facts(Decimal(1)) == JournalFacts(
        (ToolUse("sleep", 2, 2, "second"), ToolUse("memory", 1, 0, "")), (cleared,), Decimal(1)
    )


def test_invented_tool_names_are_counted_together() -> None:
    log = RunLog()
    for number in range(1000):
        log.record_call(f"tool {number}", "unknown")
    tools = log.facts(Decimal(0)).tools
    assert len(tools) == MAX_TOOLS
    assert tools[0] == ToolUse(OTHERS, 1000 - MAX_TOOLS + 1, 1000 - MAX_TOOLS + 1, "unknown")


def test_names_and_errors_are_cut() -> None:
    log = RunLog()
    log.record_call("x" * 10_000, "y" * 10_000)
    [tool] = log.facts(Decimal(0)).tools
    assert (len(tool.name), len(tool.last_error)) == (101, 201)


def test_cleared_notifications_are_bounded() -> None:
    log = RunLog()
    for _ in range(MAX_SEARCHED + 1):
        log.record_cleared(new_id())
    assert len(log.facts(Decimal(0)).cleared) == MAX_SEARCHED
