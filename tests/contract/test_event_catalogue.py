"""The list of event types in docs/events.md is that of the code."""

from tests.contract.event_catalogue import GUIDE, MARK, updated


def test_guide_lists_the_event_types_of_the_code() -> None:
    guide = GUIDE.read_text()
    assert MARK in guide
    assert guide == updated(guide), "run `make events`"
