"""Paths of memories: the documents that an agent sees as files below `/memories`."""

import re

ROOT = "/memories"
CORE = "/memories/core.md"
MAX_CORE_BYTES = 8192  # of the core memory, because every wake contains it
MAX_PATH_CHARACTERS = 512
MAX_NAME_CHARACTERS = 255  # of one part of a path, which becomes the title of the document

# Some programs would decode these to a dot, a slash, a backslash or NUL.
_ENCODED = re.compile(r"%(2e|2f|5c|00)", re.IGNORECASE)


class InvalidPath(ValueError):
    """A text is no path of a memory; the message says why."""


def normalized(path: str) -> str:
    """Return the path without a closing slash and without empty, `.` and `..` parts. Raise InvalidPath.

    The result is ROOT or begins with ROOT and a slash.
    """
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise InvalidPath(f"Path must start with {ROOT}, got: {path[:MAX_PATH_CHARACTERS]}")
    if len(path) > MAX_PATH_CHARACTERS:
        raise InvalidPath(f"Path must have at most {MAX_PATH_CHARACTERS} characters, got {len(path)}")
    if not path.isprintable() or "\\" in path or _ENCODED.search(path):
        raise InvalidPath(
            f"Path {path!a} must not contain control characters, backslashes or percent-encoded ones"
        )
    parts: list[str] = []
    for part in path.removeprefix(ROOT).split("/"):
        if part == "..":
            if not parts:
                raise InvalidPath(f"Path {path} would escape {ROOT} directory")
            parts.pop()
        elif part not in {"", "."}:
            parts.append(part)
    if any(len(part) > MAX_NAME_CHARACTERS for part in parts):
        raise InvalidPath(f"Each name in a path must have at most {MAX_NAME_CHARACTERS} characters")
    return "/".join((ROOT, *parts))


def parents(path: str) -> list[str]:
    """Return the directories that contain a path, below ROOT."""
    parts = path.removeprefix(f"{ROOT}/").split("/")[:-1]
    return ["/".join((ROOT, *parts[: depth + 1])) for depth in range(len(parts))]


def name_of(path: str) -> str:
    """Return the last part of a path."""
    return path.rpartition("/")[2]


def core_refusal(path: str | None, content: str) -> str | None:
    """Return why the content is too long for the core memory; None if it is not, or the path is another."""
    size = len(content.encode())
    if path != CORE or size <= MAX_CORE_BYTES:
        return None
    return (
        f"{CORE} may have at most {MAX_CORE_BYTES} bytes, because every wake contains it, not {size}. "
        f"Keep there only what always matters, and move the rest to other files in {ROOT}."
    )
