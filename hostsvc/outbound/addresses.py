"""The classification of IP addresses: outbound calls for tenants may go to public ones only."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Network = IPv4Network | IPv6Network

# From the IANA registries of special-purpose addresses. `ipaddress.is_global` differs between versions of
# Python and does not name the kind.
_KINDS = {
    "unspecified": ("0.0.0.0/8", "::/128"),
    "loopback": ("127.0.0.0/8", "::1/128"),
    "link-local": ("169.254.0.0/16", "fe80::/10"),
    "private": (
        "10.0.0.0/8",
        "100.64.0.0/10",  # shared by the customers of a carrier-grade NAT
        "168.63.129.16/32",  # the Azure platform, as virtual machines see it
        "172.16.0.0/12",
        "192.168.0.0/16",
        "64:ff9b:1::/48",  # local-use NAT64
        "fc00::/7",
        "fec0::/10",
    ),
    "multicast": ("224.0.0.0/4", "ff00::/8"),
    "reserved": (
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "240.0.0.0/4",
        "2001::/23",  # includes Teredo
        "2001:db8::/32",
        "2002::/16",  # 6to4
        "3fff::/20",
    ),
}
SPECIAL: tuple[tuple[Network, str], ...] = tuple(
    (ip_network(network), kind) for kind, networks in _KINDS.items() for network in networks
)
UNICAST = IPv6Network("2000::/3")  # the only IPv6 range assigned so far
NAT64 = IPv6Network("64:ff9b::/96")  # the last four bytes are an IPv4 address


def special_kind(address: IPv4Address | IPv6Address) -> str | None:
    """Return the kind of a special address, such as "loopback", or None if the address is public."""
    address = _embedded_ipv4(address)
    for network, kind in SPECIAL:
        if address.version == network.version and address in network:
            return kind
    if isinstance(address, IPv6Address) and address not in UNICAST:
        return "reserved"
    return None


def _embedded_ipv4(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return the IPv4 address that an IPv6 address translates to, or else the address itself."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in NAT64:
            return IPv4Address(address.packed[-4:])
    return address


def parse_address(host: str) -> IPv4Address | IPv6Address | None:
    """Parse an IP address. Return None for a name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


def is_ambiguous_address(host: str) -> bool:
    """Return whether some resolvers take this for an IPv4 address: `127.1`, `0x7f.0.0.1`, `2130706433`.

    It is no name either, since no top-level domain is a number.
    """
    last = host.rstrip(".").rpartition(".")[2].lower()
    return parse_address(host) is None and (last.isdigit() or last.startswith("0x"))
