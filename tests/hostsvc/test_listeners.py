"""The sockets of a node: which it has, their addresses, and when they can be connected to."""

import socket
from dataclasses import replace

import pytest

from hostsvc.config import ClusterSettings, Config, ConfigError, NodeSettings, ServerSettings
from hostsvc.listeners import bind_public, open_listeners

LONE = Config(server=ServerSettings(port=0))


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


def test_only_process_has_the_public_socket_alone() -> None:
    with open_listeners(LONE, None) as listeners:
        assert len(listeners.sockets) == 1
        assert listeners.url == listeners.node_url
        assert listeners.url.startswith("http://127.0.0.1:")


def test_node_without_the_role_http_has_a_private_socket_alone() -> None:
    config = replace(
        LONE,
        node=NodeSettings(roles=("runs",)),
        cluster=ClusterSettings("127.0.0.2"),
        server=ServerSettings(),
    )
    with open_listeners(config, None) as listeners:
        assert listeners.public is None
        assert listeners.url == listeners.node_url
        assert listeners.url.startswith("http://127.0.0.2:")


def test_worker_has_the_shared_socket_and_one_of_its_own() -> None:
    config = replace(LONE, node=NodeSettings(workers=2))
    with (
        bind_public(config.server) as shared,
        open_listeners(config, shared.dup()) as one,
        open_listeners(config, shared.dup()) as two,
    ):
        assert one.url == two.url
        assert len({one.url, one.node_url, two.node_url}) == 3


def test_nobody_can_connect_before_the_socket_listens() -> None:
    with open_listeners(LONE, None) as listeners:
        address = ("127.0.0.1", port_of(listeners.url))
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)
        listeners.sockets[0].listen()
        socket.create_connection(address).close()


def test_ipv6_address_is_written_in_brackets() -> None:
    config = replace(LONE, server=ServerSettings(host="::1", port=0))
    with open_listeners(config, None) as listeners:
        assert listeners.url.startswith("http://[::1]:")


def test_address_of_another_machine_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"cannot listen on port 1 on 192\.0\.2\.1: .*correct server\.host"):
        bind_public(ServerSettings(host="192.0.2.1", port=1))
    config = replace(LONE, node=NodeSettings(roles=("runs",)), cluster=ClusterSettings("192.0.2.1"))
    with (
        pytest.raises(ConfigError, match=r"cannot listen on 192\.0\.2\.1: .*; correct cluster\.address"),
        open_listeners(config, None),
    ):
        pass
