"""The state diagram in docs/architecture.md has the transitions that the code has: no more, no fewer."""

import re
from collections.abc import Iterator
from random import Random

from supervisors.policy.phases import Phase
from tests.paths import ROOT
from tests.supervisors.policy.random_walk import Wanderer

DOCUMENT = ROOT / "docs" / "architecture.md"
DIAGRAM = re.compile(r"^```mermaid\nstateDiagram-v2\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FRAME = re.compile(r"state (\w+) \{(.*?)\}", re.DOTALL)
ARROW = re.compile(r"(\w+) --> (\w+) :")
WALKS = 700
STEPS = 40

Transition = tuple[Phase, Phase]


def drawn() -> Iterator[Transition]:
    """The arrows of the diagram; one to or from a frame is one for each phase in it."""
    [diagram] = DIAGRAM.findall(DOCUMENT.read_text())
    frames = {
        name: {phase for arrow in ARROW.findall(inside) for phase in arrow}
        for name, inside in FRAME.findall(diagram)
    }
    for begin, end in ARROW.findall(diagram):
        for before in frames.get(begin, {begin}):
            for after in frames.get(end, {end}):
                yield Phase(before), Phase(after)


def wandered() -> dict[Transition, str]:
    """The transitions that the rules make, each with the happening that made it last."""
    found: dict[Transition, str] = {}
    for seed in range(WALKS):
        agent = Wanderer(Random(seed))  # noqa: S311 -- the same walks each time
        before = agent.phase
        for _ in range(STEPS):
            happening = agent.step()
            after = agent.phase
            found[before, after] = happening
            before = after
    return {(before, after): why for (before, after), why in found.items() if before is not after}


def test_the_diagram_shows_the_transitions_that_there_are() -> None:
    shown, there_are = set(drawn()), wandered()

    missing = {f"{before} --> {after} : {there_are[before, after]}" for before, after in {*there_are} - shown}
    assert not missing, "the diagram lacks transitions that the code makes"
    invented = {f"{before} --> {after}" for before, after in shown - {*there_are}}
    assert not invented, "the diagram shows transitions that the code never makes"
