"""The sentences of rewinds: settings as they follow "with", and lengths of time."""

from collections.abc import Mapping
from typing import Any

WORDS = {
    "debounce_window_seconds": "a window of {} s",
    "max_sleep_hours": "sleeps of at most {} h",
    "max_cost_usd_per_day": "a cap of {:.2f} USD a day",
    "max_wakes_per_hour": "wakes limited to {} an hour",
    "max_wakes_per_day": "wakes limited to {} a day",
    "quiet_hours": "quiet hours of {}",
    "template_id": "the template {}",
}


def in_words(patch: Mapping[str, Any]) -> str:
    """Name the settings of a patch; those of today if it has none."""
    said = [words.format(patch[name]) for name, words in WORDS.items() if patch.get(name) not in (None, "")]
    said += [f"no {_plain(name)} of its own" for name in WORDS if patch.get(name, 0) is None]
    said += ["no quiet hours"] if patch.get("quiet_hours") == "" else []
    said += ["no pause"] if "paused" in patch else []
    priorities = {rule["source"]: rule["priority"] for rule in patch.get("priorities", ())}
    said += [f"{priority} priority for {source}" for source, priority in priorities.items()]
    said += ["other times of its schedules"] if patch.get("schedules") else []
    return " and ".join(filter(None, (", ".join(said[:-1]), said[-1]))) if said else "the settings of today"


def _plain(name: str) -> str:
    return name.removesuffix("_id").removesuffix("_seconds").replace("_", " ")


def length_in_words(seconds: float) -> str:
    """Write a length of time in its largest unit."""
    for size, unit in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"
