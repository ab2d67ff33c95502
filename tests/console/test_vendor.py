"""The console's libraries are the files that the lock file names, and import nothing but each other."""

import json
from typing import Any

from tests.console.vendor import LOCK, PACKAGES, SPECIFIER, VENDOR, digest, rewrite

PACKAGES_OF_LOCK: list[dict[str, Any]] = json.loads((VENDOR / LOCK).read_text())["packages"]
FILES = {name: stated for package in PACKAGES_OF_LOCK for name, stated in package["files"].items()}


def test_files_have_the_digests_of_the_lock_file() -> None:
    assert {path.name: digest(path) for path in VENDOR.iterdir() if path.name != LOCK} == FILES


def test_lock_file_has_every_package_with_its_licence() -> None:
    expected = [(package.name, package.version, package.licence) for package in PACKAGES]
    assert [(each["name"], each["version"], each["licence"]) for each in PACKAGES_OF_LOCK] == expected
    for each, package in zip(PACKAGES_OF_LOCK, PACKAGES, strict=True):
        assert each["integrity"].startswith("sha512-")
        assert {package.notice, *package.files.values()} == each["files"].keys()


def test_modules_import_only_each_other() -> None:
    modules = {path.name: path.read_text() for path in VENDOR.glob("*.js")}
    imported = {match[3] for text in modules.values() for match in SPECIFIER.finditer(text)}
    assert imported == {"./preact.js", "./hooks.js", "./signals_core.js"}
    assert not [name for name, text in modules.items() if "sourceMappingURL" in text]


def test_bare_import_specifiers_become_paths() -> None:
    module = 'import{a as b}from"preact/hooks";export{c}from "preact";import"./d.js"\n'
    expected = 'import{a as b}from"./hooks.js";export{c}from "./preact.js";import"./d.js"\n'
    assert rewrite(f"{module}//# sourceMappingURL=e.map\n") == expected
