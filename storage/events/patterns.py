"""Patterns of event types: the exact name of a type, or `run.*` for all types of a family."""

from collections.abc import Collection, Iterable
from difflib import get_close_matches

ALL_OF_FAMILY = ".*"


def patterns_of(types: Iterable[str]) -> tuple[str, ...]:
    """Return every pattern that selects some of these types: the types, and then their families."""
    names = tuple(types)
    families = dict.fromkeys(name.partition(".")[0] + ALL_OF_FAMILY for name in names)
    return (*names, *families)


def nearest_pattern(text: str, types: Iterable[str]) -> str:
    """Return the pattern that is most similar to the text."""
    [nearest] = get_close_matches(text.lower(), patterns_of(types), n=1, cutoff=0)
    return nearest


def selected_types(patterns: Collection[str], types: Iterable[str]) -> frozenset[str]:
    """Return the types that at least one of the patterns selects; no patterns select all types."""
    if not patterns:
        return frozenset(types)
    families = tuple(pattern.removesuffix("*") for pattern in patterns if pattern.endswith(ALL_OF_FAMILY))
    return frozenset(name for name in types if name in patterns or name.startswith(families))
