"""Paths of memories: how they are normalized, and which are refused."""

import pytest

from storage.channels.memories import (
    MAX_CORE_BYTES,
    InvalidPath,
    core_refusal,
    name_of,
    normalized,
    parents,
)

NORMAL = {
    "/memories": "/memories",
    "/memories/": "/memories",
    "/memories/a.md": "/memories/a.md",
    "/memories//a///b/": "/memories/a/b",
    "/memories/./a/../b": "/memories/b",
    "/memories/a b/ä…😀": "/memories/a b/ä…😀",
    "/memories/100% sure": "/memories/100% sure",
    "/memories/.hidden": "/memories/.hidden",
}

REFUSED = {
    "": "must start with /memories",
    "a.md": "must start with /memories",
    "/etc/passwd": "must start with /memories",
    "/memoriesx": "must start with /memories",
    "memories/a": "must start with /memories",
    "/memories/..": "would escape /memories directory",
    "/memories/../x": "would escape /memories directory",
    "/memories/../memories/x": "would escape /memories directory",
    "/memories/a/../../x": "would escape /memories directory",
    "/memories/%2e%2e/x": "percent-encoded",
    "/memories/%2E./x": "percent-encoded",
    "/memories/a%2fb": "percent-encoded",
    "/memories/a%5cb": "percent-encoded",
    "/memories/..\\x": "backslashes",
    "/memories/a\0b": "control characters",
    "/memories/a\nb": "control characters",
    "/memories/a\u202eb": "control characters",
    "/memories/a\ud800": "control characters",
    "/memories/" + "a/" * 300: "at most 512 characters",
    "/memories/" + "a" * 256: "at most 255 characters",
}


@pytest.mark.parametrize("path", NORMAL)
def test_path_is_normalized(path: str) -> None:
    assert normalized(path) == NORMAL[path]


@pytest.mark.parametrize("path", REFUSED)
def test_bad_path_is_refused_with_the_reason(path: str) -> None:
    with pytest.raises(InvalidPath, match=REFUSED[path]) as refused:
        normalized(path)
    assert str(refused.value).encode().isascii()


def test_parents_and_name_of_a_path() -> None:
    assert parents("/memories/a/b/c.md") == ["/memories/a", "/memories/a/b"]
    assert parents("/memories/c.md") == []
    assert name_of("/memories/a/b/c.md") == "c.md"


def test_only_the_core_memory_is_bounded() -> None:
    assert core_refusal("/memories/core.md", "ä" * (MAX_CORE_BYTES // 2)) is None
    assert "at most 8192 bytes" in (core_refusal("/memories/core.md", "x" * (MAX_CORE_BYTES + 1)) or "")
    assert core_refusal("/memories/other.md", "x" * 100_000) is None
    assert core_refusal(None, "x" * 100_000) is None
