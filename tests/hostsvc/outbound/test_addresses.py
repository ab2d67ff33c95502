"""The classification of addresses: public, or which special kind."""

from ipaddress import ip_address

import pytest

from hostsvc.outbound.addresses import is_ambiguous_address, special_kind


@pytest.mark.parametrize(
    ("kind", "addresses"),
    [
        ("unspecified", "0.0.0.0 0.1.2.3 :: ::ffff:0.0.0.0 64:ff9b::"),
        ("loopback", "127.0.0.1 127.255.255.254 ::1 ::ffff:127.0.0.1 ::ffff:7f00:1 64:ff9b::127.0.0.1"),
        ("link-local", "169.254.169.254 fe80::1 fe80::1%eth0 febf::1 ::ffff:169.254.169.254"),
        ("private", "10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 fc00::1 fd00:ec2::254 fec0::1"),
        ("private", "100.64.0.1 100.100.100.200 168.63.129.16 64:ff9b:1::1 64:ff9b::10.0.0.1"),
        ("multicast", "224.0.0.1 239.255.255.250 ff02::1 ::ffff:224.0.0.1"),
        ("reserved", "192.0.0.192 192.0.2.1 198.18.0.1 198.51.100.1 203.0.113.1 240.0.0.1 255.255.255.255"),
        ("reserved", "2001::1 2001:0:4136:e378::1 2001:db8::1 2002:7f00:1:: 2002:101:101:: 3fff::1"),
        ("reserved", "::7f00:1 ::127.0.0.1 ::1.1.1.1 100::1 4000::1 5f00::1 fe00::1 ::ffff:0:127.0.0.1"),
        (None, "1.1.1.1 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 172.32.0.0 223.255.255.255"),
        (None, "2606:4700::1111 2a00::1 2003::1 ::ffff:1.1.1.1 64:ff9b::1.1.1.1"),
    ],
)
def test_special_kind_names_every_address_that_is_not_public(kind: str | None, addresses: str) -> None:
    kinds = {address: special_kind(ip_address(address)) for address in addresses.split()}
    assert kinds == dict.fromkeys(addresses.split(), kind)


@pytest.mark.parametrize(
    "host", ["127.1", "0x7f.1", "0x7f000001", "2130706433", "0177.0.0.1", "1.2.3.4.5", "256.1.1.1", "a.0X7f"]
)
def test_number_that_some_resolvers_accept_is_ambiguous(host: str) -> None:
    assert is_ambiguous_address(host)
    assert is_ambiguous_address(f"{host}.")


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "example.org", "1.example", "3com.com", "0xyz.org", ""])
def test_addresses_and_names_are_not_ambiguous(host: str) -> None:
    assert not is_ambiguous_address(host)
