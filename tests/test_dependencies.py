"""Each direct dependency has a reason in its decision record."""

import re
import tomllib
from collections.abc import Iterable

from tests.paths import DOCS, ROOT

RECORD = (DOCS / "adr" / "0049-each-dependency-has-a-reason.md").read_text()


def test_record_names_exactly_the_direct_dependencies() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    of_users, of_developers = RECORD.split("| package for development |")
    assert rows_of(of_users) == names_of(project["project"]["dependencies"])
    assert rows_of(of_developers) == names_of(project["dependency-groups"]["dev"])


def names_of(requirements: Iterable[str]) -> list[str]:
    return sorted(re.split(r"[^A-Za-z0-9-]", requirement)[0] for requirement in requirements)


def rows_of(text: str) -> list[str]:
    cells = re.findall(r"^\| ([a-z0-9, -]+) \| \S", text, re.MULTILINE)
    return sorted(name for cell in cells if cell != "package" for name in cell.split(", "))
