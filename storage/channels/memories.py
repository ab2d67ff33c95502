"""Memories: the documents that an agent sees as files below `/memories`, by their paths.

Directories exist as far as documents are in them.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from storage.channels.documents import Document, Writer
from storage.postgres.pool import Pool
from storage.postgres.statement import fetch_all, fetch_one
from storage.versions import MAX_VERSIONS

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


MAX_FILES = 1000  # that one call deletes or renames
MAX_FILES_READ = 10_000  # of a directory that is listed

GET = """
SELECT d.id, d.organization_id, d.agent_id, d.project_id, d.title, d.content, d.content_type, d.created_at,
       d.updated_at, d.path, d.version, d.author, d.run_id, d.deleted_at
FROM document d WHERE d.agent_id = $1 AND d.path = $2 AND d.deleted_at IS NULL
"""

# `0` is the character after `/`.
FIND_CONFLICT = """
SELECT path FROM document
WHERE agent_id = $1 AND (path = ANY($2::text[]) OR path >= $3 || '/' AND path < $3 || '0')
  AND deleted_at IS NULL
LIMIT 1
"""

# Sizes are summed up by the first two names below the directory.
LIST = """
SELECT f.first, f.second, f.is_directory, sum(f.size_bytes)::bigint AS size_bytes
FROM (
    SELECT split_part(rest, '/', 1) AS first, split_part(rest, '/', 2) AS second,
           rest LIKE '%/%/%' AS is_directory, size_bytes
    FROM (
        SELECT substr(path, length($2) + 2) AS rest, octet_length(content) AS size_bytes
        FROM document
        WHERE agent_id = $1 AND path >= $2 || '/' AND path < $2 || '0' AND deleted_at IS NULL
        ORDER BY path LIMIT $3
    ) AS file
) AS f
GROUP BY f.first, f.second, f.is_directory
ORDER BY f.first, f.second LIMIT $4
"""

FIND = """
SELECT id, path FROM document
WHERE agent_id = $1 AND (path = $2 OR path >= $2 || '/' AND path < $2 || '0') AND deleted_at IS NULL
ORDER BY path LIMIT $3
"""

# The content moves into a version, so that the deletion can be undone.
DELETE = """
WITH old AS (
    SELECT * FROM document WHERE id = ANY($1::uuid[]) AND deleted_at IS NULL ORDER BY id FOR UPDATE
), kept AS (
    INSERT INTO document_version (
        document_id, number, organization_id, title, content, content_type, author, run_id, created_at)
    SELECT id, version, organization_id, title, content, content_type, author, run_id, updated_at FROM old
), pruned AS (
    DELETE FROM document_version v USING old WHERE v.document_id = old.id AND v.number <= old.version + 1 - $5
)
UPDATE document d
SET content = '', author = $2, run_id = $3, updated_at = $4, deleted_at = $4, version = old.version + 1
FROM old WHERE d.id = old.id
"""

RENAME = """
UPDATE document
SET path = $3 || substr(path, length($2) + 1), title = CASE path WHEN $2 THEN $4 ELSE title END
WHERE id = ANY($1::uuid[]) AND deleted_at IS NULL AND (path = $2 OR starts_with(path, $2 || '/'))
RETURNING id
"""


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """What a directory contains, by the first two names below it; `second` is blank for a file in it.

    An entry with `is_directory` sums up the files that lie deeper.
    """

    first: str
    second: str
    is_directory: bool
    size_bytes: int


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """A memory that is about to be deleted or renamed."""

    id: UUID
    path: str


class Memories:
    """The documents of agents that have a path. All paths are normalized."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def get(self, agent_id: UUID, path: str) -> Document | None:
        return await fetch_one(self._pool, Document, GET, agent_id, path)

    async def find_conflict(self, agent_id: UUID, path: str) -> str | None:
        """Return the path of a document that keeps another one from standing at `path`; None if none does.

        It stands where `path` needs a directory, or it needs a directory where `path` is.
        """
        found: str | None = await self._pool.fetchval(FIND_CONFLICT, agent_id, parents(path), path)
        return found

    async def list_directory(self, agent_id: UUID, path: str, limit: int) -> list[DirectoryEntry]:
        """List up to `limit` entries by name. The sizes count the first MAX_FILES_READ files."""
        return await fetch_all(self._pool, DirectoryEntry, LIST, agent_id, path, MAX_FILES_READ, limit)

    async def list_files(self, agent_id: UUID, path: str) -> list[MemoryFile]:
        """List the document at this path, or all below it; at most one more than MAX_FILES."""
        return await fetch_all(self._pool, MemoryFile, FIND, agent_id, path, MAX_FILES + 1)

    async def delete(self, files: Sequence[MemoryFile], writer: Writer, now: datetime) -> None:
        """Delete these documents in such a way that their versions stay."""
        ids = [file.id for file in files]
        await self._pool.execute(DELETE, ids, writer.author, writer.run_id, now, MAX_VERSIONS)

    async def rename(self, files: Sequence[MemoryFile], old: str, new: str, name: str) -> bool:
        """Put `new` in the place of `old` at the beginning of the paths; `name` is the last part of `new`.

        Return False if none of them is there any more, as it was renamed or deleted since it was listed.
        Raise NotUnique if there is a document at one of the new paths.
        """
        ids = [file.id for file in files]
        return bool(await self._pool.fetch(RENAME, ids, old, new, name))
