"""A real name server over UDP, for tests: it answers from records that change from one query to the next."""

import asyncio
import struct
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import cast

A, CNAME, AAAA = 1, 5, 28
INTERNET = 1
ANSWER, NOT_FOUND = 0x8580, 0x8583  # authoritative, recursion available

Record = str
"""An address, or the name that this name is an alias of."""


@dataclass
class NameServer(asyncio.DatagramProtocol):
    """Answers each query for a name with the next of its lists of records, and then from the first again.

    The records live for no time (TTL 0). `queries` counts the queries for addresses of each name and type.
    """

    records: Mapping[str, Sequence[Sequence[Record]]]
    queries: Counter[tuple[str, int]] = field(default_factory=Counter)
    _transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, query: bytes, sender: tuple[str, int]) -> None:
        name, end = _read_name(query, 12)
        [kind] = struct.unpack_from(">H", query, end)
        choices = self.records.get(name, ())
        if self._transport is None:
            return
        number = self.queries[name, kind]
        self.queries[name, kind] += 1
        answers = list(self._answers(name, kind, choices[number % len(choices)])) if choices else []
        flags = ANSWER if choices else NOT_FOUND
        head = query[:2] + struct.pack(">HHHHH", flags, 1, len(answers), 0, 0)
        self._transport.sendto(head + query[12 : end + 4] + b"".join(answers), sender)

    def _answers(self, name: str, kind: int, records: Sequence[Record]) -> list[bytes]:
        """Return the records of this type, and those that an alias leads to."""
        answers = []
        for record in records:
            if record.endswith("."):
                answers.append(_record(name, CNAME, _name(record)))
                target = record.removesuffix(".")
                number = self.queries[name, kind] - 1
                choices = self.records[target]
                answers += self._answers(target, kind, choices[number % len(choices)])
            elif kind == (A if ip_address(record).version == 4 else AAAA):
                answers.append(_record(name, kind, ip_address(record).packed))
        return answers


def _record(name: str, kind: int, data: bytes) -> bytes:
    return _name(name) + struct.pack(">HHIH", kind, INTERNET, 0, len(data)) + data


def _name(name: str) -> bytes:
    labels = name.removesuffix(".").encode().split(b".")
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\0"


def _read_name(query: bytes, start: int) -> tuple[str, int]:
    """Return the name in a query, in small letters, and the index behind it."""
    labels = []
    while length := query[start]:
        labels.append(query[start + 1 : start + 1 + length].decode())
        start += 1 + length
    return ".".join(labels).lower(), start + 1


@asynccontextmanager
async def serving_names(
    records: Mapping[str, Sequence[Sequence[Record]]], port: int
) -> AsyncIterator[NameServer]:
    """Serve on this port of loopback."""
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(
        lambda: NameServer(records), local_addr=("127.0.0.1", port)
    )
    try:
        yield server
    finally:
        transport.close()
