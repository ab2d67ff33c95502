"""The sentences of rewinds: settings as they follow "with", and lengths of time."""

from collections.abc import Mapping
from typing import Any

WORDS = {
    "debounce_window_seconds": "a window of {} s",
    "max_sleep_hours": "sleeps of at most {} h",
    "max_cost_usd_per_day": "a cap of {:.2f} USD a day",
    "max_wakes_per_hour": "at most {} wakes an hour",
    "max_wakes_per_day": "at most {} wakes a day",
    "quiet_hours": "quiet hours of {}",
    "template_id": "the template {}",
}


def in_words(patch: Mapping[str, Any]) -> str:
    """Name the settings of a patch; those of today if it has none."""
    said = [words.format(patch[name]) for name, words in WORDS.items() if patch.get(name) not in (None, "")]
    said += [f"no {name.removesuffix('_id')} of its own" for name in WORDS if patch.get(name, 0) is None]
    said += ["no quiet hours"] if patch.get("quiet_hours") == "" else []
    said += ["no pause"] if "paused" in patch else []
    said += [f"{rule['priority']} priority for {rule['source']}" for rule in patch.get("priorities", ())]
    said += ["other times of its schedules"] if patch.get("schedules") else []
    return " and ".join(filter(None, (", ".join(said[:-1]), said[-1]))) if said else "the settings of today"


def length_in_words(seconds: float) -> str:
    """Write a length of time in its largest unit."""
    for size, unit in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 or seconds == int(seconds) else f"{seconds:.1f} s"
