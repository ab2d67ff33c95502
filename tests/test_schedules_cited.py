"""The tests that docs/schedules.md names exist."""

from tests.cited_tests import cited_tests, missing_tests
from tests.paths import DOCS, ROOT


def test_schedules_guide_links_to_existing_tests() -> None:
    tests = cited_tests((DOCS / "schedules.md").read_text())
    assert len(tests) > 15
    assert missing_tests(tests, ROOT) == []
