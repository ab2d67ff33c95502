"""What tests cite of docs/invariants.md is there, and the tests that it links to exist."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.cited_tests import cited_tests, missing_tests
from tests.paths import DOCS, ROOT

INVARIANTS = DOCS / "invariants.md"
TESTS = ROOT / "tests"

INVARIANT = re.compile(r"\b[IN][1-9]\d*\b")
SCENARIOS = re.compile(r"\b[Ss]cenarios? (\d+(?:(?:, | and |, and |-)\d+)*)")
ROW = re.compile(r"^\|\s*[*`]*([IN]?[1-9]\d*)[*`]*\s*\|")


@dataclass
class Document:
    """The contents of docs/invariants.md. A test is a path and a name, which is blank for a whole file."""

    invariants: set[str] = field(default_factory=set)
    scenarios: set[int] = field(default_factory=set)
    unlinked: list[str] = field(default_factory=list)
    tests: set[tuple[str, str]] = field(default_factory=set)


def read_document(text: str) -> Document:
    """Read the rows of its tables: `I<n>` or `N<n>` begins that of an invariant, `<n>` of a scenario."""
    document = Document()
    for line in text.splitlines():
        tests = cited_tests(line)
        document.tests |= tests
        if row := ROW.match(line):
            key = row[1]
            if key.startswith(("I", "N")):
                document.invariants.add(key)
            else:
                document.scenarios.add(int(key))
            if not tests:
                document.unlinked.append(key)
    return document


def unknown_citations(text: str, document: Document) -> list[str]:
    """Return the invariants and scenarios that the text cites and the document does not have."""
    invariants = set(INVARIANT.findall(text)) - document.invariants
    scenarios = {
        number for cited in SCENARIOS.findall(text) for number in _numbers(cited)
    } - document.scenarios
    return [*sorted(invariants), *(f"scenario {number}" for number in sorted(scenarios))]


def _numbers(cited: str) -> Iterator[int]:
    """Yield the numbers of "3", "3, 4 and 7" and "3-5"."""
    for part in re.split(r", and |, | and ", cited):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def test_tests_cite_only_invariants_and_scenarios_that_exist() -> None:
    document = read_document(INVARIANTS.read_text())
    unknown = {
        str(file.relative_to(ROOT)): cited
        for file in TESTS.rglob("*.py")
        if file != Path(__file__) and (cited := unknown_citations(file.read_text(), document))
    }
    assert unknown == {}


def test_document_links_each_row_to_existing_tests() -> None:
    document = read_document(INVARIANTS.read_text())
    of_nodes = {f"N{number}" for number in range(1, 10)}
    assert document.invariants == {f"I{number}" for number in range(1, 11)} | of_nodes
    assert document.scenarios == set(range(1, 26))
    assert document.unlinked == []
    assert missing_tests(document.tests, ROOT) == []
