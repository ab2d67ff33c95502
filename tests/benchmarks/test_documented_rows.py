"""docs/performance.md explains each row of the benchmarks."""

import re

from tests.benchmarks.__main__ import ROWS
from tests.paths import ROOT

DOCUMENT = (ROOT / "docs" / "performance.md").read_text()


def test_document_explains_each_row_and_no_other() -> None:
    assert set(re.findall(r"^\| `([a-z]+)` \|", DOCUMENT, re.MULTILINE)) == set(ROWS)
