"""Copy the console's libraries from npm into web/static/console/vendor: `make vendor`.

Browsers cannot resolve bare import specifiers such as "preact/hooks" without an import map, so each becomes
the path of the copied file. The comments that name source maps are removed, because those are not copied.
Nothing else of the published files changes. To upgrade, change a version below; `lock.json` records what has
been copied.
"""

import base64
import hashlib
import json
import re
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.paths import ROOT

VENDOR = ROOT / "web" / "static" / "console" / "vendor"
LOCK = "lock.json"
SOURCE_MAP = re.compile(r"\n?//# sourceMappingURL=\S+\s*$")
SPECIFIER = re.compile(r"""\b(from|import)\s*\(?\s*(["'])([^"']+)\2""")


@dataclass(frozen=True)
class Package:
    """A package of npm, and where its files go."""

    name: str
    version: str
    licence: str  # as SPDX writes it
    files: dict[str, str]  # names of ours by the paths of the package

    @property
    def notice(self) -> str:
        """Return the name of our copy of its licence text."""
        return self.name.removeprefix("@").replace("/", "_") + ".LICENSE.txt"


PACKAGES = (
    Package("preact", "11.2.0", "MIT", {"dist/preact.mjs": "preact.js", "hooks/dist/hooks.mjs": "hooks.js"}),
    Package("@preact/signals-core", "1.14.5", "MIT", {"dist/signals-core.mjs": "signals_core.js"}),
    Package("@preact/signals", "2.11.4", "MIT", {"dist/signals.mjs": "signals.js"}),
    Package("htm", "3.1.1", "Apache-2.0", {"dist/htm.mjs": "htm.js"}),
)
SPECIFIERS = {
    "preact": "./preact.js",
    "preact/hooks": "./hooks.js",
    "@preact/signals-core": "./signals_core.js",
}


def main() -> None:
    """Copy all packages, and write the lock file."""
    with tempfile.TemporaryDirectory() as directory:
        packages = [_copy(package, Path(directory)) for package in PACKAGES]
    (VENDOR / LOCK).write_text(json.dumps({"packages": packages}, indent=2) + "\n")


def _copy(package: Package, directory: Path) -> dict[str, object]:
    """Write the files of a package, and return its entry in the lock file."""
    pack = ["npm", "pack", f"{package.name}@{package.version}", "--json"]
    result = subprocess.run(pack, cwd=directory, stdout=subprocess.PIPE, check=True)
    [packed] = json.loads(result.stdout)
    tarball = directory / packed["filename"]
    if _integrity(tarball.read_bytes()) != packed["integrity"]:
        raise SystemExit(f"{package.name}: the tarball does not have the integrity that npm states")
    with tarfile.open(tarball) as archive:
        texts = {target: _read(archive, source) for source, target in package.files.items()}
        licence = _read(archive, "LICENSE")
        stated = json.loads(_read(archive, "package.json"))["license"]
    if stated != package.licence:
        raise SystemExit(f"{package.name}: its licence is {stated}, not {package.licence}")
    for target, text in texts.items():
        (VENDOR / target).write_text(rewrite(text))
    (VENDOR / package.notice).write_text(licence)
    return {
        "name": package.name,
        "version": package.version,
        "licence": package.licence,
        "integrity": packed["integrity"],
        "files": {name: digest(VENDOR / name) for name in (*texts, package.notice)},
    }


def rewrite(text: str) -> str:
    """Return a module that imports our copies, and names no source map."""
    return SPECIFIER.sub(_relative, SOURCE_MAP.sub("", text)).rstrip("\n") + "\n"


def digest(path: Path) -> str:
    """Return the SHA-512 of a file, as the lock file states it."""
    return hashlib.sha512(path.read_bytes()).hexdigest()


def _relative(match: re.Match[str]) -> str:
    specifier = match[3]
    path = specifier if specifier.startswith(".") else SPECIFIERS[specifier]
    return match[0].replace(specifier, path)


def _read(archive: tarfile.TarFile, path: str) -> str:
    file = archive.extractfile(f"package/{path}")
    assert file is not None, path
    return file.read().decode()


def _integrity(tarball: bytes) -> str:
    return "sha512-" + base64.b64encode(hashlib.sha512(tarball).digest()).decode()


if __name__ == "__main__":
    main()
