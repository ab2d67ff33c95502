"""Names of adapter tools for models: each is unique, and every model provider accepts it."""

import re
from collections.abc import Collection, Iterable, Iterator
from itertools import count
from unicodedata import normalize

from storage.toolbox.agent_tools import ListedTool

MAX_LENGTH = 64
MAX_ADAPTER_LENGTH = 31  # of the prefix, so that something of the tool's own name remains
DEFAULT_NAME = "tool"

FORBIDDEN = re.compile(r"[^A-Za-z0-9_-]+")


def names_for_models(tools: Iterable[ListedTool], taken: Collection[str]) -> dict[str, ListedTool]:
    """Return the tools by name, in the order of their adapters; of one adapter, the oldest first.

    The first tool of a name keeps it; a later one gets its adapter's name as a prefix. So a tool added to an
    agent's last adapter, or with a new last adapter, changes no other name.
    """
    by_name: dict[str, ListedTool] = {}
    for tool in sorted(tools, key=lambda tool: (tool.position, tool.id)):
        free = (name for name in _candidates(tool) if name not in taken and name not in by_name)
        by_name[next(free)] = tool
    return by_name


def _candidates(tool: ListedTool) -> Iterator[str]:
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
