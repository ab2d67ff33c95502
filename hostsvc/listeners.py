"""The sockets on which a node serves the API. They are bound early, and listen once the API is served."""

import errno
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from hostsvc.config import HTTP, Config, ConfigError, ServerSettings
from hostsvc.start_checks import cannot_listen, cannot_listen_for_nodes

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Listeners:
    """The public socket, which the workers of a machine share, and the private one of this node alone.

    A node has at least one. Without a private one, the public socket is that of this node alone.
    """

    public: socket.socket | None
    private: socket.socket | None

    @property
    def sockets(self) -> tuple[socket.socket, ...]:
        return tuple(each for each in (self.public, self.private) if each is not None)

    @property
    def url(self) -> str:
        """Return the address of the API for clients."""
        return url_of(self.sockets[0])

    @property
    def node_url(self) -> str:
        """Return the address at which this very node answers."""
        return url_of(self.sockets[-1])


@contextmanager
def open_listeners(config: Config, shared: socket.socket | None) -> Iterator[Listeners]:
    """Bind the sockets of this node; `shared` is the public one if a parent has bound it for its workers."""
    with ExitStack() as stack:
        public, private = shared, None
        if public is None and HTTP in config.node.roles:
            public = bind_public(config.server)
        if public is not None:
            stack.enter_context(public)
        if public is None or config.node.workers > 1:
            private = stack.enter_context(_bind_private(config.cluster.address))
        yield Listeners(public, private)


def bind_public(server: ServerSettings) -> socket.socket:
    """Bind the public address. Raise ConfigError if it is not this machine's, and OSError if it is in use."""
    try:
        return _bind(server.host, server.port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise
        raise ConfigError(cannot_listen(server, error.strerror or str(error))) from error


def _bind_private(address: str) -> socket.socket:
    try:
        return _bind(address or LOOPBACK, 0)
    except OSError as error:
        raise ConfigError(cannot_listen_for_nodes(address, error.strerror or str(error))) from error


def _bind(host: str, port: int) -> socket.socket:
    """Return a bound socket, to which nobody can connect before it listens."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # after a restart
        if listener.family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((host, port))
    except OSError:
        listener.close()
        raise
    return listener


def url_of(listener: socket.socket) -> str:
    """Return the address of a bound socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
