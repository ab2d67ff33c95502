"""The least change by which a notification would have woken its agent in time."""

from dataclasses import replace
from decimal import Decimal
from zoneinfo import ZoneInfo

from storage.agent_facts import Budget
from storage.model import Source
from supervisors.rewind.least_change import NONE_FOUND, LeastChange, least_change
from supervisors.rewind.replay import Replay, Rules
from tests.supervisors.rewind.recordings import Log, at, note, rules


def found(log: Log, settings: Rules, until: str, zone: str = "UTC") -> LeastChange:
    def run(replay: Replay) -> Replay:
        list(replay.steps())
        return replay

    return least_change(settings, note(1), ZoneInfo(zone), log.recording(until), run)


def one_text(priority: str = "high") -> Log:
    log = Log()
    log.comes(1, "03:12:00", priority=priority)
    return log


def test_quiet_hours_end_at_the_hour_before() -> None:
    least = found(one_text(), rules(quiet_hours="22:00-07:00"), "05:00")

    assert least.patch == {"quiet_hours": "22:00-03:00"}
    assert least.sentence == "It would have woken at 2026-11-02 03:12 UTC with quiet hours of 22:00-03:00."


def test_quiet_hours_of_the_same_hour_are_left_out_alone() -> None:
    least = found(one_text(), rules(quiet_hours="22:00-23:00, 03:00-04:00"), "03:30")
    assert least.patch == {"quiet_hours": "22:00-23:00"}


def test_window_is_shortened_no_more_than_needed() -> None:
    least = found(one_text(), rules(window=3600), "03:22")

    assert (least.patch, least.at) == ({"debounce_window_seconds": 599}, at("03:21:59"))


def test_low_priority_becomes_high() -> None:
    assert found(one_text("low"), rules(), "04:00").patch == {
        "priorities": [{"source": "sms", "priority": "high"}]
    }


def test_one_more_wake_is_allowed() -> None:
    log = Log()
    log.comes(0, "03:00:00", Source.API)
    log.run("03:00:00", "notification:api", 0)
    log.comes(1, "03:12:00")

    assert found(log, rules(max_wakes_per_hour=1), "03:30").patch == {"max_wakes_per_hour": 2}


def test_two_settings_are_changed_if_one_is_not_enough() -> None:
    least = found(one_text("low"), rules(quiet_hours="22:00-07:00"), "05:00")

    assert least.patch.keys() == {"priorities", "quiet_hours"}


def test_change_of_three_settings_is_not_offered() -> None:
    least = found(one_text("low"), rules(window=36_000, quiet_hours="22:00-07:00"), "05:00")

    assert least == LeastChange(NONE_FOUND, {}, None)


def test_cap_is_raised_to_whole_cents() -> None:
    log = Log()
    log.comes(0, "03:00:00", Source.API)
    log.run("03:00:00", "notification:api", 0)
    log.comes(1, "03:12:00")
    settings = rules()
    capped = replace(settings.facts, budgets=(Budget(False, Decimal("0.009"), Decimal(0)),))

    least = found(log, replace(settings, facts=capped), "03:30")

    assert least.patch == {"max_cost_usd_per_day": 0.02}
    assert least.sentence.endswith(" with a cap of 0.02 USD a day.")


def test_moments_are_told_in_the_time_zone_of_the_agent() -> None:
    least = found(
        one_text(), rules(quiet_hours="22:00-07:00", timezone="Europe/Vienna"), "05:00", "Europe/Vienna"
    )

    assert least.sentence == "It would have woken at 2026-11-02 04:12 CET with quiet hours of 22:00-04:00."


def test_settings_changed_since_then_may_be_enough() -> None:
    least = found(one_text(), rules(), "05:00")

    assert least.sentence == "It would have woken at 2026-11-02 03:12 UTC with the settings of today."


def test_notification_that_woke_needs_no_change() -> None:
    log = one_text()
    log.run("03:12:01", "notification:sms", 1)

    assert found(log, rules(), "05:00").sentence == "It woke at 2026-11-02 03:12:01 UTC."
