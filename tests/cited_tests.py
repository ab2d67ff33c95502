"""The tests that a document links to, as `tests/<path>.py::<name>`."""

import ast
import re
from collections.abc import Iterable
from pathlib import Path

TEST = re.compile(r"(?:\.\./)*(tests/[\w/]+\.py)(?:::(\w+))?")
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


def cited_tests(text: str) -> set[tuple[str, str]]:
    """Return the tests that a text names: path and name, which is blank for a whole file."""
    return {(path, name) for path, name in TEST.findall(text)}


def defined_tests(source: str) -> set[str]:
    """Return the names of the test functions in a Python source."""
    nodes = ast.walk(ast.parse(source))
    return {node.name for node in nodes if isinstance(node, FUNCTION) and node.name.startswith("test")}


def missing_tests(tests: Iterable[tuple[str, str]], root: Path) -> list[str]:
    """Return the tests that the repository does not have."""
    missing = []
    for path, name in sorted(tests):
        file = root / path
        if not file.is_file() or (name and name not in defined_tests(file.read_text())):
            missing.append(f"{path}::{name}" if name else path)
    return missing
