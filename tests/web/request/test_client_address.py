"""The address of a client behind proxies, and the network that its requests count for."""

from ipaddress import ip_network

import pytest
from structlog.testing import capture_logs

from tests.web.conftest import StartService
from web.request.client_address import client_address, network_of

LOGIN = "/api/organizations/auth/login/"


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("203.0.113.9", ["198.51.100.1"], "203.0.113.9"),  # no proxy of ours: its word does not count
        ("10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("::ffff:10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["1.1.1.1, 198.51.100.1", "10.0.0.2"], "198.51.100.1"),
        ("10.0.0.1", ["198.51.100.1:5678"], "198.51.100.1"),  # as some proxies write it
        ("10.0.0.1", ["198.51.100.1:5678, 10.0.0.2:80"], "198.51.100.1"),
        ("10.0.0.1", ["[2001:db8::1]:443"], "2001:db8::1"),
        ("10.0.0.1", ["[2001:db8::1]"], "2001:db8::1"),
        ("10.0.0.1", ["2001:db8::1"], "2001:db8::1"),
        ("10.0.0.1", ["nonsense"], "10.0.0.1"),
        ("10.0.0.1", ["nonsense:80"], "10.0.0.1"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("", ["198.51.100.1"], ""),
    ],
)
def test_client_is_last_hop_that_is_no_trusted_proxy(peer: str, forwarded: list[str], client: str) -> None:
    assert client_address(peer, forwarded, (ip_network("10.0.0.0/8"),)) == client


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("198.51.100.1", "198.51.100.1"),
        ("::ffff:198.51.100.1", "198.51.100.1"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("2001:DB8:1:2:ffff:ffff:ffff:ffff", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_ipv6_addresses_count_by_their_64_bit_network(address: str, network: str) -> None:
    assert network_of(address) == network


@pytest.mark.one_node
async def test_untrusted_forwarded_header_warns_operator_once(start_service: StartService) -> None:
    service = await start_service()
    with capture_logs() as logged:
        for client in range(3):
            headers = {"X-Forwarded-For": f"198.51.100.{client}"}
            await service.nobody.post(LOGIN, {"email": "a@example.com", "password": "x"}, headers=headers)
    [line] = [line for line in logged if "X-Forwarded-For" in line["event"]]
    assert "server.trusted_proxies" in line["event"]
    assert line["peer"] == "127.0.0.1"


async def test_trusted_forwarded_header_does_not_warn(start_service: StartService) -> None:
    service = await start_service(trusted_proxies=(ip_network("127.0.0.0/8"),))
    with capture_logs() as logged:
        headers = {"X-Forwarded-For": "198.51.100.1"}
        await service.nobody.post(LOGIN, {"email": "a@example.com", "password": "x"}, headers=headers)
    assert logged == []
