"""The network of a run that reaches only its service."""

import asyncio
import json
from pathlib import Path

import pytest

from hostsvc.process_harness.keeper.relay import MAX_CONNECTIONS
from tests.hostsvc.process_harness.specs import containment_fields, python, run

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


@pytest.mark.parametrize("kind", ["namespace", "namespace with users"])
async def test_run_reaches_its_service_and_nothing_else(workspace: Path, mark: str, kind: str) -> None:
    service, other = [await asyncio.start_server(echo, "127.0.0.1", 0) for _ in range(2)]
    async with service, other:
        ports = [server.sockets[0].getsockname()[1] for server in (service, other)]
        spec = python(
            *(workspace, mark, CALLS),
            input=json.dumps([*ports, MAX_CONNECTIONS + 4]),
            service_host="127.0.0.1",
            service_port=ports[0],
            **containment_fields(kind),
        )
        end = await run(spec)
    assert end.output.splitlines() == [
        "True",
        "Connection refused",
        "Network is unreachable",
        "{'socket'}",
    ]
    assert end.code == 0
