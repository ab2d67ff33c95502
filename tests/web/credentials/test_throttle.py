"""The throttle, and the address of a client behind proxies."""

from ipaddress import ip_network

import pytest

from web.credentials.throttle import Throttle, client_address
from web.errors import TooManyAttempts


def test_throttle_opens_after_five_minutes() -> None:
    throttle = Throttle()
    for second in range(10):
        throttle.check("a", second)
        throttle.count("a", second)
    with pytest.raises(TooManyAttempts) as refused:
        throttle.check("a", 10)
    assert refused.value.headers == {"Retry-After": "290"}
    throttle.check("b", 10)
    throttle.check("a", 300)


def test_throttle_forgets_quiet_addresses() -> None:
    throttle = Throttle()
    throttle.count("quiet", 0)
    throttle.count("recent", 0)
    throttle.count("recent", 200)
    throttle.count("latest", 301)
    assert repr(throttle) == "<Throttle: 2 addresses>"


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("203.0.113.9", ["198.51.100.1"], "203.0.113.9"),  # no proxy of ours: its word does not count
        ("10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("::ffff:10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["1.1.1.1, 198.51.100.1", "10.0.0.2"], "198.51.100.1"),
        ("10.0.0.1", ["nonsense"], "10.0.0.1"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("", ["198.51.100.1"], ""),
    ],
)
def test_client_is_last_hop_that_is_no_trusted_proxy(peer: str, forwarded: list[str], client: str) -> None:
    assert client_address(peer, forwarded, (ip_network("10.0.0.0/8"),)) == client
