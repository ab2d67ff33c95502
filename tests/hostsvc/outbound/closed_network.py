"""A network of its own for one process: any address can be a local one, and nothing leaves the machine.

`unshare` of util-linux starts the process in new network and mount namespaces. There it may listen on the
port for names (53) and give the loopback interface public addresses.
"""

import shutil
import socket
import struct
import subprocess
import sys
from fcntl import ioctl
from functools import cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from tempfile import NamedTemporaryFile

from tests.patience import PATIENCE_SECONDS

UNSHARE = ("unshare", "--net", "--mount")
AS_ROOT = "--map-root-user"

GET_FLAGS, SET_FLAGS, SET_ADDRESS, GET_INDEX = 0x8913, 0x8914, 0x8916, 0x8933
UP = 1
LOOPBACK = b"lo"
RESOLVER = Path("/etc/resolv.conf")


@cache
def command() -> list[str]:
    """Return the command that starts a program in a closed network; empty if this machine allows none."""
    for options in ((), (AS_ROOT,)):
        candidate = [*UNSHARE, *options]
        if shutil.which(candidate[0]) and subprocess.run([*candidate, "true"], check=False).returncode == 0:
            return candidate
    return []


def run_module(module: str) -> str:
    """Run a module in a closed network, and return what it prints."""
    program = [*command(), sys.executable, "-W", "error", "-m", module]
    return subprocess.run(
        program, check=True, capture_output=True, text=True, timeout=PATIENCE_SECONDS
    ).stdout


def set_up(addresses: list[str], resolver: str) -> None:
    """Within the network: make these addresses local, and use this configuration of the resolver."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ipv4:
        _, flags = struct.unpack("16sh", ioctl(ipv4, GET_FLAGS, struct.pack("16sh", LOOPBACK, 0)))
        ioctl(ipv4, SET_FLAGS, struct.pack("16sh", LOOPBACK, flags | UP))
        for number, text in enumerate(addresses):
            match ip_address(text):
                case IPv4Address() as address:
                    alias = b"lo:%d" % number
                    request = struct.pack("16sHH4s8x", alias, socket.AF_INET, 0, address.packed)
                    ioctl(ipv4, SET_ADDRESS, request)
                case IPv6Address() as address:
                    _add_ipv6(address)
    with NamedTemporaryFile("w", suffix=".resolv.conf") as file:
        file.write(resolver)
        file.flush()
        subprocess.run(["mount", "--bind", file.name, RESOLVER], check=True)


def _add_ipv6(address: IPv6Address) -> None:
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as ipv6:
        index = socket.if_nametoindex(LOOPBACK.decode())
        ioctl(ipv6, SET_ADDRESS, struct.pack("16sIi", address.packed, 128, index))
