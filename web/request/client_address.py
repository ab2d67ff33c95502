"""The address of a client behind proxies, and the network by which limits count its requests."""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

import structlog
from aiohttp import web

from web.app_keys import LINES, SETTINGS

FORWARDED = "X-Forwarded-For"
IGNORED_FORWARDED = (
    "X-Forwarded-For ignored: the peer is no trusted proxy; if it is a proxy of yours, "
    "add its network to server.trusted_proxies, or all its clients share one limit"
)
IPV6_CLIENT_BITS = 64  # a provider gives each customer at least a /64, so its addresses are one client

Network = IPv4Network | IPv6Network

log = structlog.get_logger(__name__)


def client_network(request: web.Request) -> str:
    """Return the network that limits count the request's client by: an IPv4 address or an IPv6 /64.

    An X-Forwarded-For that does not count is reported to the operator.
    """
    peer, trusted = request.remote or "", request.app[SETTINGS].trusted_proxies
    forwarded = request.headers.getall(FORWARDED, ())
    if forwarded and not is_within(peer, trusted):
        request.app[LINES].write(log.warning, IGNORED_FORWARDED, peer=peer)
    return network_of(client_address(peer, forwarded, trusted))


def address_of(request: web.Request) -> str:
    """Return the address of the request's client, for the audit log."""
    forwarded = request.headers.getall(FORWARDED, ())
    return client_address(request.remote or "", forwarded, request.app[SETTINGS].trusted_proxies)


def client_address(peer: str, forwarded: Iterable[str], trusted: tuple[Network, ...]) -> str:
    """Return the address of the client: the last hop of X-Forwarded-For that is not a trusted proxy.

    X-Forwarded-For counts only if the peer itself is a trusted proxy.
    """
    hops = ",".join(forwarded).split(",")
    address = peer
    while hops and is_within(address, trusted):
        hop = _without_port(hops.pop().strip())
        if _parse(hop) is None:
            break
        address = hop
    return address


def network_of(address: str) -> str:
    """Return the address of an IPv4 client, or the /64 network of an IPv6 client; other text as it is."""
    parsed = _parse(address)
    if parsed is None:
        return address
    if isinstance(parsed, IPv4Address):
        return str(parsed)
    return str(IPv6Network((int(parsed), IPV6_CLIENT_BITS), strict=False))


def _without_port(hop: str) -> str:
    """Return a hop without a port and brackets, which some proxies write: `[2001:db8::1]:443`."""
    if hop.startswith("["):
        return hop[1:].partition("]")[0]
    host, _, port = hop.partition(":")
    return host if port.isdecimal() else hop


def is_within(address: str, networks: tuple[Network, ...]) -> bool:
    """Return whether the address belongs to one of the networks."""
    if not networks:
        return False
    parsed = _parse(address)
    return parsed is not None and any(parsed in network for network in networks)


def _parse(address: str) -> IPv4Address | IPv6Address | None:
    """Return the address without its scope; an IPv4 address that is mapped into IPv6 as IPv4."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return None
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return mapped or parsed
