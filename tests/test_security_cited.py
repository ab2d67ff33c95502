"""Each claim of docs/security.md names a test that exists."""

import re

from tests.attack.test_attacks import TESTED
from tests.cited_tests import cited_tests, missing_tests
from tests.paths import DOCS, ROOT

TABLE = "| claim | test |"
ATTACK = re.compile(r"test_attacks\.py::test_service_withstands_attack\[(\w+)\]")


def claims(text: str) -> dict[str, str]:
    """Return the rows of all tables of claims: the tests of each claim."""
    rows, is_table = {}, False
    for line in text.splitlines():
        is_table = line == TABLE or (is_table and line.startswith("|"))
        if is_table and line != TABLE and not line.startswith("|-"):
            claim, tests = line.strip("|").rsplit("|", 1)
            rows[claim.strip()] = tests
    return rows


def test_each_claim_links_to_existing_tests() -> None:
    text = (DOCS / "security.md").read_text()
    found = claims(text)
    assert len(found) > 20
    assert [claim for claim, tests in found.items() if not cited_tests(tests)] == []
    assert missing_tests(cited_tests(text), ROOT) == []


def test_each_cited_attack_is_made_by_its_test() -> None:
    text = (DOCS / "security.md").read_text()
    assert text.count("test_attacks.py::test_service_withstands_") == len(ATTACK.findall(text))
    assert set(ATTACK.findall(text)) <= {attack.name for attack in TESTED}
