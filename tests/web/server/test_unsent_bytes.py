"""The bytes that wait for slow readers: their bound, and who is cut off for others."""

from dataclasses import dataclass, field
from ipaddress import ip_network

from web.server.unsent_bytes import UnsentBytes


@dataclass(eq=False)
class Reader:
    name: str
    ended: list[str] = field(repr=False)

    def cut_off(self) -> None:
        self.ended.append(self.name)


def test_longest_wait_ends_when_network_exceeds_its_share() -> None:
    unsent, ended = UnsentBytes(max_bytes=400), list[str]()
    first, second, third = (Reader(name, ended) for name in ("first", "second", "third"))
    unsent.add(first, "198.51.100.1", 40)
    unsent.add(second, "198.51.100.1", 60)
    unsent.remove(first, "198.51.100.1")
    unsent.add(first, "198.51.100.1", 40)  # it has taken some bytes, and waits again
    assert ended == []
    unsent.add(third, "198.51.100.1", 1)
    assert ended == ["second"]
    for reader in (first, second, third):
        unsent.remove(reader, "198.51.100.1")
    assert repr(unsent) == "<UnsentBytes: 0 of 400>"


def test_network_with_most_bytes_makes_room_for_others() -> None:
    unsent, ended = UnsentBytes((ip_network("198.51.100.9/32"),), max_bytes=400), list[str]()
    unsent.add(Reader("honest", ended), "198.51.100.1", 30)
    for number in range(10):
        unsent.add(Reader(f"proxied {number}", ended), "198.51.100.9", 37)
    assert ended == []
    unsent.add(Reader("new", ended), "198.51.100.2", 10)
    assert ended == ["proxied 0"]
