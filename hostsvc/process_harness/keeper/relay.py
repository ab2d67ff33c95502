"""A network in which a run reaches only the service: its bytes are passed on to one address."""

import fcntl
import os
import select
import socket
import struct
from contextlib import suppress

from hostsvc.process_harness.keeper.linux import CLONE_NEWNET, unshare

LOOPBACK, LOOPBACK_ADDRESS = b"lo", "127.0.0.1"
SIOCSIFFLAGS, IFF_UP, IFREQ = 0x8914, 1, "16sH22x"
MAX_CONNECTIONS = 64
PIECE_BYTES = 65_536
CONNECT_SECONDS = 5.0


class Relay:
    """The way from the loopback address of a run's own network to the service."""

    def __init__(self, service: tuple[str, int]) -> None:
        self._service = service
        self._launcher_end, self._init_end = socket.socketpair()

    def enter_network(self) -> None:
        """Move this process into a network that has only a loopback interface, and send a listener there.

        The listener serves connections in the new network wherever it is accepted from.
        """
        self._launcher_end.close()
        unshare(CLONE_NEWNET)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack(IFREQ, LOOPBACK, IFF_UP))
        address = (LOOPBACK_ADDRESS, self._service[1])
        with socket.create_server(address, backlog=MAX_CONNECTIONS) as listener, self._init_end:
            socket.send_fds(self._init_end, [b"."], [listener.fileno()])

    def pass_on_until_exit(self, init: int) -> None:
        """Pass on the connections to the listener that the init process sends, until that process exits."""
        self._init_end.close()
        _, descriptors, _, _ = socket.recv_fds(self._launcher_end, 1, 1)
        if not descriptors:
            return  # the init process could not enter its network, and reports that
        exited = os.pidfd_open(init)
        connections: list[Connection] = []
        with socket.socket(fileno=descriptors[0]) as listener:
            listener.setblocking(False)
            while exited not in (ready := _wait_for_any(exited, listener, connections)):
                for connection in connections:
                    connection.pass_on(ready)
                connections = [connection for connection in connections if not connection.is_over()]
                if listener.fileno() in ready:
                    connections += self._accept(listener)

    def _accept(self, listener: socket.socket) -> "list[Connection]":
        try:
            run, _ = listener.accept()
        except OSError:  # it was broken off, or there are no descriptors
            return []
        try:
            service = socket.create_connection(self._service, CONNECT_SECONDS)
        except OSError:
            run.close()
            return []
        for each in (run, service):
            each.setblocking(False)
        return [Connection(run, service)]


def _wait_for_any(exited: int, listener: socket.socket, connections: "list[Connection]") -> set[int]:
    """Return the descriptors that are ready. Accept nothing while there are too many connections."""
    poll = select.poll()
    poll.register(exited, select.POLLIN)
    if len(connections) < MAX_CONNECTIONS:
        poll.register(listener, select.POLLIN)
    for connection in connections:
        connection.register(poll)
    return {descriptor for descriptor, _ in poll.poll()}


class Connection:
    """A connection of the run and the one to the service that continues it."""

    def __init__(self, run: socket.socket, service: socket.socket) -> None:
        self._sockets = (run, service)
        self._directions = (Direction(run, service), Direction(service, run))

    def register(self, poll: "select.poll") -> None:
        """Register what each direction waits for. A socket that nothing waits for must not wake the relay."""
        events: dict[int, int] = {}
        for direction in self._directions:
            if direction.is_open:
                descriptor, event = direction.waits_for()
                events[descriptor] = events.get(descriptor, 0) | event
        for descriptor, event in events.items():
            poll.register(descriptor, event)

    def pass_on(self, ready: set[int]) -> None:
        for direction in self._directions:
            if direction.is_open and direction.waits_for()[0] in ready:
                direction.pass_on()

    def is_over(self) -> bool:
        """Return whether both directions have ended, and close the sockets then."""
        if any(direction.is_open for direction in self._directions):
            return False
        for each in self._sockets:
            each.close()
        return True


class Direction:
    """One direction of a connection. At most one piece of it is in memory."""

    def __init__(self, source: socket.socket, sink: socket.socket) -> None:
        self.is_open = True
        self._source = source
        self._sink = sink
        self._piece = b""

    def waits_for(self) -> tuple[int, int]:
        if self._piece:
            return self._sink.fileno(), select.POLLOUT
        return self._source.fileno(), select.POLLIN

    def pass_on(self) -> None:
        try:
            if not self._piece:
                self._piece = self._source.recv(PIECE_BYTES)
                if not self._piece:
                    self._end()
                    return
            self._piece = self._piece[self._sink.send(self._piece) :]
        except BlockingIOError:
            pass
        except OSError:  # one of the two has broken off
            self._end()

    def _end(self) -> None:
        self.is_open = False
        with suppress(OSError):
            self._sink.shutdown(socket.SHUT_WR)
