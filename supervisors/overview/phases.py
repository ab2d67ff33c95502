"""How many agents are in which phase, from counts of the event log's phases. Pure functions."""

from collections import Counter
from collections.abc import Iterable

from storage.agents.overviews import ALL_PHASES
from supervisors.overview.sentences import WORDS
from supervisors.policy.phases import ShownPhase

UNPAUSED = frozenset({ShownPhase.RUNNING, ShownPhase.STOPPING, ShownPhase.ARCHIVED})


def shown_phases(counts: Iterable[tuple[bool, str, int]]) -> dict[ShownPhase, int]:
    """Return the number of agents in each phase that has any.

    A count says whether the organization is paused, the phase, and the number of agents; those asleep are
    only counted in `ALL_PHASES`. A pause, which the log does not tell of each agent, holds all that neither
    run nor are archived.
    """
    phases: Counter[ShownPhase] = Counter()
    for is_paused, name, agents in counts:
        resting = ShownPhase.PAUSED if is_paused else ShownPhase.ASLEEP
        if name == ALL_PHASES:
            phases[resting] += agents
            continue
        phase = ShownPhase(name)
        phases[resting if is_paused and phase not in UNPAUSED else phase] += agents
        phases[resting] -= agents
    return {phase: phases[phase] for phase in WORDS if phases[phase] > 0}
