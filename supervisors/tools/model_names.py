"""Names of adapter tools for models: each is unique, and every model provider accepts it."""

import re
from collections.abc import Collection, Iterable, Iterator
from itertools import count
from typing import Protocol, TypeVar
from unicodedata import normalize
from uuid import UUID

MAX_LENGTH = 64
MAX_ADAPTER_LENGTH = 31  # of the prefix, so that something of the tool's own name remains
DEFAULT_NAME = "tool"

FORBIDDEN = re.compile(r"[^A-Za-z0-9_-]+")


class Nameable(Protocol):
    """A tool, its adapter's name, and the position of that adapter among those of the agent."""

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
    """Return the tools by name, in the order of their adapters; of one adapter, the oldest first.

    The first tool of a name keeps it; a later one gets its adapter's name as a prefix. So a tool added to an
    agent's last adapter, or with a new last adapter, changes no other name.
    """
    by_name: dict[str, Named] = {}
    for tool in sorted(tools, key=lambda tool: (tool.position, tool.id)):
        free = (name for name in _candidates(tool) if name not in taken and name not in by_name)
        by_name[next(free)] = tool
    return by_name


def _candidates(tool: Nameable) -> Iterator[str]:
    """Yield the names that a tool can have, best first, without an end."""
    name = slug(tool.name)
    yield name
    name = f"{slug(tool.adapter_name)[:MAX_ADAPTER_LENGTH]}_{name}"[:MAX_LENGTH]
    yield name
    for number in count(2):
        yield f"{name[: MAX_LENGTH - len(f'_{number}')]}_{number}"


def slug(text: str) -> str:
    """Return the text in the characters of names: without accents, and with `_` for anything else."""
    plain = normalize("NFKD", text).encode("ascii", "ignore").decode()
    return FORBIDDEN.sub(" ", plain).strip().replace(" ", "_")[:MAX_LENGTH] or DEFAULT_NAME
