"""Counts of recent events by network, bounded in number."""

from web.credentials.recent_events import RecentEvents


def test_network_waits_until_its_oldest_event_leaves_the_window() -> None:
    events = RecentEvents(max_events=2, window_seconds=60)
    events.add("a", 0)
    assert (events.wait_seconds("a", 1), events.count("a", 1)) == (0, 1)
    events.add("a", 10)
    assert (events.wait_seconds("a", 11), events.count("a", 11)) == (49, 2)
    assert events.wait_seconds("b", 11) == 0
    assert (events.wait_seconds("a", 60), events.count("a", 60)) == (0, 1)


def test_quiet_networks_are_forgotten() -> None:
    events = RecentEvents(max_events=10, window_seconds=300)
    events.add("quiet", 0)
    events.add("recent", 0)
    events.add("recent", 200)
    events.add("latest", 301)
    assert len(events) == 2


def test_number_of_networks_is_bounded() -> None:
    events = RecentEvents(max_events=10, window_seconds=300, max_networks=100)
    for number in range(1000):
        events.add(str(number), number / 1000)
    assert len(events) == 100
    assert (events.count("0", 1), events.count("999", 1)) == (0, 1)
