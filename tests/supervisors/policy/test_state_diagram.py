"""The state diagram in docs/architecture.md shows exactly the transitions that the rules make."""

import re
from collections.abc import Iterator
from random import Random

from supervisors.policy.phases import Phase
from tests.paths import ROOT
from tests.supervisors.policy.random_walk import RandomAgent

DOCUMENT = ROOT / "docs" / "architecture.md"
DIAGRAM = re.compile(r"^```mermaid\nstateDiagram-v2\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FRAME = re.compile(r"state (\w+) \{(.*?)\}", re.DOTALL)
ARROW = re.compile(r"(\w+) --> (\w+) :")
WALKS = 1000
STEPS = 40

Transition = tuple[Phase, Phase]


def drawn_transitions() -> Iterator[Transition]:
    """Yield the arrows of the diagram; an arrow to or from a frame stands for each phase in the frame."""
    [diagram] = DIAGRAM.findall(DOCUMENT.read_text())
    frames = {
        name: {phase for arrow in ARROW.findall(inside) for phase in arrow}
        for name, inside in FRAME.findall(diagram)
    }
    for begin, end in ARROW.findall(diagram):
        for before in frames.get(begin, {begin}):
            for after in frames.get(end, {end}):
                yield Phase(before), Phase(after)


def made_transitions() -> dict[Transition, str]:
    """Return the transitions that random walks make, each with the event that made it last."""
    events: dict[Transition, str] = {}
    for seed in range(WALKS):
        agent = RandomAgent(Random(seed))  # noqa: S311 -- the same walks each time
        before = agent.phase
        for _ in range(STEPS):
            event = agent.step()
            after = agent.phase
            events[before, after] = event
            before = after
    return {(before, after): event for (before, after), event in events.items() if before is not after}


def test_state_diagram_matches_the_transitions_of_the_rules() -> None:
    drawn, made = set(drawn_transitions()), made_transitions()

    missing = {f"{before} --> {after} : {made[before, after]}" for before, after in {*made} - drawn}
    assert not missing, "the diagram lacks transitions that the code makes"
    invented = {f"{before} --> {after}" for before, after in drawn - {*made}}
    assert not invented, "the diagram shows transitions that the code never makes"
