"""Which addresses are public, so that what a tenant names may be called there."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Network = IPv4Network | IPv6Network

# By the registries of special addresses of IANA. Not by `ipaddress.is_global`, which differs between the
# versions of Python, and has no word for why.
_KINDS = {
    "unspecified": ("0.0.0.0/8", "::/128"),
    "loopback": ("127.0.0.0/8", "::1/128"),
    "link-local": ("169.254.0.0/16", "fe80::/10"),
    "private": (
        "10.0.0.0/8",
        "100.64.0.0/10",  # shared behind the NAT of a carrier
        "168.63.129.16/32",  # where Azure talks to its machines
        "172.16.0.0/12",
        "192.168.0.0/16",
        "64:ff9b:1::/48",  # NAT64 of the network's own
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
        "2001::/23",  # Teredo among them
        "2001:db8::/32",
        "2002::/16",  # 6to4
        "3fff::/20",
    ),
}
SPECIAL: tuple[tuple[Network, str], ...] = tuple(
    (ip_network(network), kind) for kind, networks in _KINDS.items() for network in networks
)
UNICAST = IPv6Network("2000::/3")  # all that is assigned so far of IPv6
NAT64 = IPv6Network("64:ff9b::/96")  # an IPv4 address in its last four bytes


def why_not_public(address: IPv4Address | IPv6Address) -> str | None:
    """What kind of address it is instead; None for one that is public."""
    address = _behind(address)
    for network, kind in SPECIAL:
        if address.version == network.version and address in network:
            return kind
    if isinstance(address, IPv6Address) and address not in UNICAST:
        return "reserved"
    return None


def _behind(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address that an IPv6 address leads to, if it does."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in NAT64:
            return IPv4Address(address.packed[-4:])
    return address


def as_address(host: str) -> IPv4Address | IPv6Address | None:
    """The address that a host is written as; None for a name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


def is_odd_address(host: str) -> bool:
    """Whether it is an IPv4 address to those who take `127.1`, `0x7f.0.0.1` or `2130706433` for one.

    No top-level domain is a number, so neither is this a name.
    """
    last = host.rstrip(".").rpartition(".")[2].lower()
    return as_address(host) is None and (last.isdigit() or last.startswith("0x"))
