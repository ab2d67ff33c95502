"""The events of the log in docs/operate/operations.md, compared with the code."""

import ast
import re
from collections.abc import Iterator

from supervisors.maintenance.database_watch import WORDING, Part
from tests.paths import ROOT

PACKAGES = ("hostsvc", "storage", "supervisors", "web")
ROW = re.compile(r"^\| `([^`]+)`[^|]*\|[^|]*\|([^|]*)\|$", re.MULTILINE)
OF_AGENTS = ("agent", "name", "organization")  # from `updates._agent`
FIELD = re.compile(r"`(\w+)`(?: \([^)]*\))?")


def documented_events() -> dict[str, list[str]]:
    """Return the fields of each event in the table of the first section."""
    _, text, *_ = (ROOT / "docs" / "operate" / "operations.md").read_text().split("\n## ")
    return {event: FIELD.findall(fields) for event, fields in ROW.findall(text)}


def logged_events() -> dict[str, list[str]]:
    """Return the fields of each event that the code logs by a call with known words."""
    return dict(event for package in PACKAGES for event in _events_of(package))


def _events_of(package: str) -> Iterator[tuple[str, list[str]]]:
    for file in (ROOT / package).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
                continue
            is_log = isinstance(node.func.value, ast.Name) and node.func.value.id in {"log", "_log"}
            event = _event_of(node.args[0]) if is_log else None
            if event is not None:
                yield event, [name for keyword in node.keywords for name in _names_of(keyword)]


def _event_of(expression: ast.expr) -> str | None:
    """Return the text of a literal, or of an attribute of the words for outages."""
    if isinstance(expression, ast.Attribute):
        return getattr(WORDING[Part.DATABASE], expression.attr, None)
    return str(expression.value) if isinstance(expression, ast.Constant) else None


def _names_of(keyword: ast.keyword) -> tuple[str, ...]:
    """Return the field of a keyword, or those that lines about an agent have."""
    return (keyword.arg,) if keyword.arg else OF_AGENTS


def test_documented_events_have_the_fields_of_the_code() -> None:
    documented, logged = documented_events(), logged_events()
    assert len(documented) > 10
    assert documented == {event: logged.get(event) for event in documented}
