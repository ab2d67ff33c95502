"""The tests that the guides name exist."""

import pytest

from tests.cited_tests import cited_tests, missing_tests
from tests.paths import DOCS, ROOT


@pytest.mark.parametrize("guide", ["schedules.md", "approvals.md"])
def test_guide_links_to_existing_tests(guide: str) -> None:
    tests = cited_tests((DOCS / guide).read_text())
    assert len(tests) > 10
    assert missing_tests(tests, ROOT) == []
