"""Limits of the JSON that the service reads: how deep, and how long before it leaves the event loop."""

from collections.abc import Iterator
from itertools import chain
from typing import Any

MAX_DEPTH = 64
OFF_LOOP_BYTES = 32_768  # longer JSON is read in a thread, so that other requests do not wait for it


def is_deeper_than(levels: int, value: Any) -> bool:
    """Return whether lists and objects are nested in each other more than `levels` times."""
    return any(depth > levels for depth, _ in enumerate(layers(value)))


def layers(value: Any) -> Iterator[list[Any]]:
    """Yield a JSON value by depth: itself, then its keys and values, then theirs; [] below an empty one.

    Not recursive, because the sender chooses the depth, and a layer at a time, because a step for each value
    would cost several times as much.
    """
    layer = [value]
    while True:
        yield layer
        lists = [item for item in layer if isinstance(item, list)]
        objects = [item for item in layer if isinstance(item, dict)]
        if not lists and not objects:
            return
        layer = [*chain.from_iterable(lists), *chain.from_iterable(objects)]
        layer += chain.from_iterable(map(dict.values, objects))
