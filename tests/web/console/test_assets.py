"""The files of the console, their addresses, and the page that refers to them."""

import gzip
import re

import brotli

from web.console.assets import Asset, Console, digest_of, read_console

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


def test_page_loads_sheets_with_base_first() -> None:
    console = Console(SOURCES, TEMPLATE)
    sheets = re.findall(r'<link rel="stylesheet" href="([^"]*)">', console.page.decode())
    assert sheets == [console.url("css/base.css"), console.url("css/agents.css")]


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
    assert {"app/main.js", "css/base.css", "icon.svg", "vendor/preact.js"} <= console.assets.keys()
    assert not [path for path in console.assets if path.endswith((".json", ".txt", ".html"))]
    assert "{" not in console.page.decode()
