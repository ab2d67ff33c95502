"""What browsers get of the console's modules."""

from importlib.resources import files
from importlib.resources.abc import Traversable

import pytest

from web.console.plain_modules import without_comments


@pytest.mark.parametrize(
    ("module", "plain"),
    [
        ("// A comment.\nconst one = 1;\n", "\nconst one = 1;\n"),
        ("/** One line. */\nconst one = 1;", "\nconst one = 1;"),
        ("/** Two\n * lines.\n */\n  one();", "\n\n\none();"),
        (
            'const url = "https://example.org"; // behind code',
            'const url = "https://example.org"; // behind code',
        ),
        ("/* a marker */ one();", "/* a marker */ one();"),
    ],
)
def test_comments_are_left_out_line_by_line(module: str, plain: str) -> None:
    assert without_comments(module) == plain


def test_no_line_inside_a_template_is_left_out() -> None:
    root = files("web").joinpath("static", "console", "app")
    for name, module in _modules(root, ""):
        inside = False
        for number, line in enumerate(module.split("\n"), 1):
            is_comment = line.strip().startswith(("//", "/**"))
            assert not (inside and is_comment), f"{name}:{number} begins like a comment inside a template"
            inside ^= line.count("`") % 2 == 1


def _modules(directory: Traversable, prefix: str) -> list[tuple[str, str]]:
    found = []
    for entry in directory.iterdir():
        if entry.is_dir():
            found += _modules(entry, f"{prefix}{entry.name}/")
        else:
            found.append((f"{prefix}{entry.name}", entry.read_text(encoding="utf-8")))
    return found
