"""The warning about X-Forwarded-For from peers that are no trusted proxies."""

from structlog.testing import capture_logs

from web.credentials.forwarded_watch import MAX_PEERS, ForwardedWatch


def test_peer_is_named_once_a_minute() -> None:
    watch = ForwardedWatch()
    with capture_logs() as logged:
        for second in range(61):
            watch.report("192.0.2.1", second)
    assert [line["peer"] for line in logged] == ["192.0.2.1"] * 2


def test_number_of_named_peers_is_bounded() -> None:
    watch = ForwardedWatch()
    with capture_logs() as logged:
        for number in range(1000):
            watch.report(f"192.0.2.{number}", number / 1000)
    assert len(logged) == MAX_PEERS
