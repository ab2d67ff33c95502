"""Every statement can run on PostgreSQL 15, the oldest version that is supported."""

import re
from pathlib import Path

import pytest

from tests.paths import ROOT

FILES = [path for path in (ROOT / "storage").rglob("*") if path.suffix in (".py", ".sql")]
SUBQUERY = re.compile(r"\b(?:FROM|JOIN|LATERAL)\s+\((?=\s*(?:SELECT|VALUES|/\*))")
# `{t}` stands for an alias that is filled in.
ALIAS = re.compile(r"\s+(?:AS\s+)?(?!(?:WHERE|ON|ORDER|GROUP|LIMIT|UNION|JOIN|CROSS|LEFT)\b)(\{t\}|[a-z_]+)")


def after_subqueries(text: str) -> list[str]:
    """Return the rest of the text after each subquery in a FROM clause."""
    return [text[_end(text, match.end()) :] for match in SUBQUERY.finditer(text)]


def _end(text: str, start: int) -> int:
    """Return the place after the parenthesis that closes the one before `start`."""
    depth = 1
    while depth:
        depth += {"(": 1, ")": -1}.get(text[start], 0)
        start += 1
    return start


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_subqueries_have_the_alias_that_postgresql_15_needs(path: Path) -> None:
    rests = after_subqueries(path.read_text())
    assert [rest[:40] for rest in rests if not ALIAS.match(rest)] == []
