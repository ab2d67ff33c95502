"""The events of the log in docs/operations.md, compared with the code."""

import ast
import re
from collections.abc import Iterator

from tests.paths import ROOT

PACKAGES = ("hostsvc", "storage", "supervisors", "web")
ROW = re.compile(r"^\| `([^`]+)`[^|]*\|[^|]*\|([^|]*)\|$", re.MULTILINE)
OF_AGENTS = ("agent", "name", "organization")  # from `lifecycle._agent`
FIELD = re.compile(r"`(\w+)`(?: \([^)]*\))?")


def documented_events() -> dict[str, list[str]]:
    """Return the fields of each event in the table."""
    text = (ROOT / "docs" / "operations.md").read_text()
    return {event: FIELD.findall(fields) for event, fields in ROW.findall(text)}


def logged_events() -> dict[str, list[str]]:
    """Return the fields of each event that the code logs by a call with literals."""
    return dict(event for package in PACKAGES for event in _events_of(package))


def _events_of(package: str) -> Iterator[tuple[str, list[str]]]:
    for file in (ROOT / package).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
                continue
            event = node.args[0]
            is_log = isinstance(node.func.value, ast.Name) and node.func.value.id in {"log", "_log"}
            if is_log and isinstance(event, ast.Constant) and isinstance(event.value, str):
                yield event.value, [name for keyword in node.keywords for name in _names_of(keyword)]


def _names_of(keyword: ast.keyword) -> tuple[str, ...]:
    """Return the field of a keyword, or those that lines about an agent have."""
    return (keyword.arg,) if keyword.arg else OF_AGENTS


def test_documented_events_have_the_fields_of_the_code() -> None:
    documented, logged = documented_events(), logged_events()
    assert len(documented) > 10
    assert documented == {event: logged.get(event) for event in documented}
