"""The network of a run that reaches only its service."""

import asyncio
import gc
import json
from pathlib import Path

from hostsvc.process_harness.network import ADDRESS, MAX_CONNECTIONS
from hostsvc.process_harness.settings import ContainmentKind
from tests.hostsvc.process_harness.specs import python, run

CALLS = """
import json, socket, sys
port, other, count = json.load(sys.stdin)

def tell(address):
    try:
        return socket.create_connection(address, 5)
    except OSError as error:
        return error.strerror

service = tell(("127.0.0.1", port))
sent = bytes(range(256)) * 4096
service.sendall(b"%d\\n" % len(sent))
service.sendall(sent)
service.shutdown(socket.SHUT_WR)
received = b""
while piece := service.recv(65536):
    received += piece
print(received == sent)
print(tell(("127.0.0.1", other)))
print(tell(("192.0.2.1", 80)))
many = [tell(("127.0.0.1", port)) for _ in range(count)]
print({type(each).__name__ for each in many})
"""


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    if length := await reader.readline():
        writer.write(await reader.readexactly(int(length)))
    writer.close()


async def test_run_reaches_its_service_and_nothing_else(
    workspace: Path, mark: str, sandbox: ContainmentKind
) -> None:
    service, other = [await asyncio.start_server(echo, "127.0.0.1", 0) for _ in range(2)]
    async with service, other:
        ports = [server.sockets[0].getsockname()[1] for server in (service, other)]
        numbers = [ADDRESS[1], ports[1], MAX_CONNECTIONS + 4]
        spec = python(
            *(workspace, mark, sandbox, CALLS),
            network="service",
            input=json.dumps(numbers),
            service=("127.0.0.1", ports[0]),
        )
        end = await run(spec)
    assert end.output.splitlines() == ["True", "Connection refused", "Network is unreachable", "{'socket'}"]
    assert end.code == 0


async def test_silence_of_the_service_breaks_the_connection(
    workspace: Path, mark: str, sandbox: ContainmentKind
) -> None:
    code = f"import socket; print(socket.create_connection({ADDRESS}, 5).recv(1))"
    nobody = ("127.0.0.1", 1)
    end = await run(python(workspace, mark, sandbox, code, network="service", service=nobody))
    assert end.output == "b''\n"


async def test_connections_of_a_run_that_ends_at_once_are_closed(
    workspace: Path, mark: str, sandbox: ContainmentKind
) -> None:
    code = f"import os, socket; many = [socket.create_connection({ADDRESS}) for _ in range(80)]; os._exit(0)"
    async with await asyncio.start_server(echo, "127.0.0.1", 0) as service:
        address = service.sockets[0].getsockname()[:2]
        for _ in range(5):  # the relay may close before or after it accepts the last ones
            end = await run(python(workspace, mark, sandbox, code, network="service", service=address))
            assert end.code == 0
    gc.collect()  # an open connection would be reported now
