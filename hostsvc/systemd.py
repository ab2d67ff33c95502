"""What a service tells systemd of itself: that it is ready, and that it ends (sd_notify)."""

import os
import socket
from contextlib import suppress


def notify_systemd(state: str) -> None:
    """Send a state such as READY=1. Nothing happens outside a unit with Type=notify."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender, suppress(OSError):
            sender.sendto(state.encode(), "\0" + address[1:] if address.startswith("@") else address)
