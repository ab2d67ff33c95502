"""The files of the console: found, named by their content, and without comments."""

import gzip
import re
from importlib.resources import files
from importlib.resources.abc import Traversable

import brotli
import pytest

from web.console.assets import Asset, Console, digest_of, read_console, without_comments

SOURCES = {
    "app/main.js": b"import './lib.js'\n",
    "app/lib.js": b"",
    "app/core/api.js": b"",
    "app/screens/now/now.js": b"",
    "css/agents.css": b"",
    "css/base.css": b"",
    "vendor/preact.js": b"",
}
TEMPLATE = '<link rel="icon" href="{assets}icon.svg">{links}'


def test_digest_changes_with_each_path_and_byte() -> None:
    digests = {
        digest_of(SOURCES),
        digest_of({**SOURCES, "app/lib.js": b" "}),
        digest_of({**SOURCES, "app/more.js": b""}),
        digest_of({path: body for path, body in SOURCES.items() if path != "app/lib.js"}),
        digest_of({"a": b"b 1 c"}),
        digest_of({"a": b"b", "c": b""}),
    }
    assert len(digests) == 6
    assert digest_of(dict(reversed(SOURCES.items()))) == digest_of(SOURCES)


def test_page_loads_one_sheet_with_base_first() -> None:
    console = Console({**SOURCES, "css/agents.css": b"a {}", "css/base.css": b"b {}"}, TEMPLATE)
    sheets = re.findall(r'<link rel="stylesheet" href="([^"]*)">', console.page.decode())
    assert sheets == [console.url("console.css")]
    assert console.assets["console.css"].body == b"b {}\na {}"


def test_page_preloads_what_every_screen_needs() -> None:
    console = Console(SOURCES, TEMPLATE)
    modules = re.findall(r'<link rel="modulepreload" href="([^"]*)">', console.page.decode())
    needed = ("app/core/api.js", "app/lib.js", "app/main.js", "vendor/preact.js")
    assert modules == [console.url(path) for path in needed]


def test_icon_has_address_with_digest() -> None:
    console = Console(SOURCES, TEMPLATE)
    assert f'href="/console/assets/{console.digest}/icon.svg"' in console.page.decode()


def test_compressed_file_is_the_file() -> None:
    asset = Asset("app/main.js", b"const one = 1\n" * 100)
    asset.compress()
    assert asset.by_brotli is not None
    assert gzip.decompress(asset.by_gzip) == brotli.decompress(asset.by_brotli) == asset.body
    assert len(asset.by_brotli) < len(asset.by_gzip) < len(asset.body)


def test_console_of_the_package_has_only_files_for_browsers() -> None:
    console = read_console()
    assert {"app/main.js", "console.css", "icon.svg", "vendor/preact.js"} <= console.assets.keys()
    assert not [path for path in console.assets if path.endswith((".json", ".txt", ".html"))]
    assert "{" not in console.page.decode()


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
