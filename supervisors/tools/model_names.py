"""What models call the tools of adapters: names that every provider takes, and each of them once."""

import re
from collections.abc import Collection, Iterable, Iterator
from itertools import count
from typing import Protocol, TypeVar
from unicodedata import normalize
from uuid import UUID

LONGEST = 64
LONGEST_ADAPTER = 31  # in front of a tool's own name, so that something of both remains
NAMELESS = "tool"

UNFIT = re.compile(r"[^A-Za-z0-9_-]+")


class Nameable(Protocol):
    """A tool, the adapter that it belongs to, and that one's position among those of the agent."""

    @property
    def id(self) -> UUID: ...

    @property
    def name(self) -> str: ...

    @property
    def adapter_name(self) -> str: ...

    @property
    def position(self) -> int: ...


Named = TypeVar("Named", bound=Nameable)


def names_for_models(tools: Iterable[Named], taken: Collection[str]) -> dict[str, Named]:
    """The tools by name, in the order of their adapters; of one adapter's, the oldest first.

    Who comes first keeps its own name, and a later namesake goes by its adapter's name as well. So a tool
    that is added at an agent's last adapter, or with another one behind it, changes nobody's name.
    """
    named: dict[str, Named] = {}
    for tool in sorted(tools, key=lambda tool: (tool.position, tool.id)):
        free = (name for name in _candidates(tool) if name not in taken and name not in named)
        named[next(free)] = tool
    return named


def _candidates(tool: Nameable) -> Iterator[str]:
    """The names a tool can have, best first, without an end."""
    name = slug(tool.name)
    yield name
    name = f"{slug(tool.adapter_name)[:LONGEST_ADAPTER]}_{name}"[:LONGEST]
    yield name
    for number in count(2):
        yield f"{name[: LONGEST - len(f'_{number}')]}_{number}"


def slug(text: str) -> str:
    """The text in the letters that names have; accents are left out, what else does not fit is a `_`."""
    plain = normalize("NFKD", text).encode("ascii", "ignore").decode()
    return UNFIT.sub(" ", plain).strip().replace(" ", "_")[:LONGEST] or NAMELESS
