"""The files of the console, which are read at first use, and its page, which refers to them.

The path of every file contains a digest of all files. So browsers keep a file for ever, and load all of them
again after an upgrade that changes one.
"""

import asyncio
import gzip
import hashlib
from collections.abc import Iterable, Mapping
from functools import cache, cached_property
from html import escape
from importlib.resources import files
from importlib.resources.abc import Traversable

import brotli

PREFIX = "/console/assets/"
PAGE = "index.html"
CONTENT_TYPES = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
SHEETS = "css/"
FIRST_SHEET = "css/base.css"  # the others change what it sets
SHEET = "console.css"  # all sheets in one, so that a browser asks once
# Every screen needs them; the other modules are loaded when a screen that needs them is first opened.
PRELOADED = (
    "vendor/",
    "app/core/",
    "app/shell/",
    "app/ui/ui.js",
    "app/main.js",
    "app/lib.js",
    "app/screens.js",
)
DIGEST_CHARACTERS = 16
GZIP_LEVEL = 9
OWN_MODULES = "app/"

COMMENT = "//"
BLOCK_START = "/**"
BLOCK_END = "*/"


class Asset:
    """A file of the console."""

    def __init__(self, path: str, body: bytes) -> None:
        self.body = body
        self.content_type = CONTENT_TYPES[suffix(path)]
        self.by_brotli: bytes | None = None

    @cached_property
    def by_gzip(self) -> bytes:
        """Return the body compressed by gzip. It takes a millisecond, once for each file."""
        return gzip.compress(self.body, GZIP_LEVEL, mtime=0)

    def compress(self) -> None:
        """Compress the body by brotli, which takes some ten milliseconds and saves a seventh."""
        self.by_brotli = brotli.compress(self.body, mode=brotli.MODE_TEXT)


class Console:
    """The page of the console and the files that it loads."""

    def __init__(self, sources: Mapping[str, bytes], template: str) -> None:
        """Take the files by their paths, and the page without the elements that refer to them."""
        sent = with_one_sheet(sources)
        self.assets = {path: Asset(path, sent[path]) for path in sorted(sent)}
        self.digest = digest_of(sources)
        self.page = self._fill(template).encode()
        self._is_compressing = False

    def begin_compressing(self) -> None:
        """Have a thread compress all files by brotli, unless it was begun before."""
        if not self._is_compressing:
            self._is_compressing = True
            asyncio.get_running_loop().run_in_executor(None, self.compress)

    def compress(self) -> None:
        """Compress all files by brotli that have not been."""
        for asset in self.assets.values():
            if asset.by_brotli is None:
                asset.compress()

    def url(self, path: str) -> str:
        """Return the address of a file."""
        return f"{PREFIX}{self.digest}/{path}"

    def _fill(self, template: str) -> str:
        modules = [path for path in self.assets if suffix(path) == "js" and path.startswith(PRELOADED)]
        links = [
            f'<link rel="stylesheet" href="{escape(self.url(SHEET))}">',
            *(f'<link rel="modulepreload" href="{escape(self.url(path))}">' for path in modules),
        ]
        return template.replace("{assets}", self.url("")).replace("{links}", "\n".join(links))


def suffix(path: str) -> str:
    """Return what follows the last full stop of a path."""
    return path.rpartition(".")[2]


def digest_of(sources: Mapping[str, bytes]) -> str:
    """Return a short digest of all paths and their files."""
    digest = hashlib.sha256()
    for path in sorted(sources):
        digest.update(b"%d %d " % (len(path), len(sources[path])) + path.encode() + sources[path])
    return digest.hexdigest()[:DIGEST_CHARACTERS]


@cache
def read_console() -> Console:
    """Read the console of this package, at first use."""
    root = files("web").joinpath("static", "console")
    sources = dict(_read(root, ""))
    return Console(sources, root.joinpath(PAGE).read_text(encoding="utf-8"))


def with_one_sheet(sources: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the files with one sheet in place of all sheets."""
    sheets = sorted(path for path in sources if path.startswith(SHEETS))
    sheets.sort(key=lambda path: path != FIRST_SHEET)
    others = {path: source for path, source in sources.items() if path not in sheets}
    return {**others, SHEET: b"\n".join(sources[path] for path in sheets)}


def _read(directory: Traversable, prefix: str) -> Iterable[tuple[str, bytes]]:
    """Yield the paths of files that browsers load, and the files."""
    for entry in directory.iterdir():
        if entry.is_dir():
            yield from _read(entry, f"{prefix}{entry.name}/")
        elif suffix(entry.name) in CONTENT_TYPES:
            yield f"{prefix}{entry.name}", _content(f"{prefix}{entry.name}", entry.read_bytes())


def _content(path: str, source: bytes) -> bytes:
    """Return what is sent of a file: the console's own modules without comments."""
    is_module = path.startswith(OWN_MODULES) and suffix(path) == "js"
    return without_comments(source.decode()).encode() if is_module else source


def without_comments(module: str) -> str:
    """Return a module without the comments that begin a line, and without indentation.

    Each line keeps its number. Comments behind code stay, so nothing inside a string is mistaken for one; a
    line of a string must therefore not begin with one of these marks.
    """
    lines = []
    is_block = False
    for line in map(str.strip, module.split("\n")):
        begins_block = not is_block and line.startswith(BLOCK_START)
        is_left_out = is_block or begins_block or line.startswith(COMMENT)
        lines.append("" if is_left_out else line)
        is_block = (is_block or begins_block) and BLOCK_END not in line
    return "\n".join(lines)
