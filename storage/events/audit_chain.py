"""The chain of the audit log: entries, their digests, and the proof that an export lacks none.

The digest of an entry is the SHA-256 of its canonical JSON, which contains the digest of the entry before it.
So a change, a removal or an insertion changes every later digest. An export is JSON Lines: the entries,
oldest first, each with its digest, then a line with the head. Verifying it needs only the standard library.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from storage.events.events import format_moment
from storage.postgres.json_values import EncodedJson, decoded
from storage.postgres.statement import fields_of

NO_DIGEST = bytes(32)  # before the first entry


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """Who did what, when and from where. `number` counts the entries of the organization."""

    id: UUID
    organization_id: UUID
    number: int
    created_at: datetime
    actor: str
    address: str
    resource: str
    action: str
    resource_id: UUID | None
    agent_id: UUID | None
    data: dict[str, Any]
    previous: bytes
    digest: bytes


class BrokenChain(Exception):
    """The export is no complete chain; the message says where it breaks."""


def digest_of(shown: Mapping[str, Any]) -> bytes:
    """Return the digest of an entry: of its values, as an export has them."""
    text = json.dumps(shown, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=_plain)
    return hashlib.sha256(text.encode()).digest()


def export_lines(entries: Iterable[AuditEntry]) -> bytes:
    """Return the lines of entries in an export."""
    lines = (json.dumps(fields_of(entry), ensure_ascii=False, default=_plain) for entry in entries)
    return "".join(f"{line}\n" for line in lines).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | EncodedJson):
        return value.hex() if isinstance(value, bytes) else decoded(value)
    return format_moment(value) if isinstance(value, datetime) else str(value)


def head_line(number: int, digest: bytes) -> bytes:
    """Return the last line of an export."""
    return json.dumps({"head": number, "digest": digest.hex()}).encode() + b"\n"


def verify(lines: Iterable[str], earlier: str = "") -> tuple[int, int, str]:
    """Return the numbers of the first entry and the head of a complete export, and the digest of the head.

    Raise BrokenChain for any other text, and if no entry has the digest `earlier`, if given.
    """
    first, number, previous = 0, 0, NO_DIGEST.hex()
    has_earlier = earlier in ("", previous)
    rest = iter(lines)
    try:
        for entry in map(json.loads, rest):
            if "detail" in entry:  # an error answer of the API
                raise BrokenChain(f"this is no export: {entry['detail']}")
            digest = entry.pop("digest")
            if "head" in entry:
                if (entry["head"], digest) != (number, previous):
                    raise BrokenChain(f"entries after number {number} are missing")
                if not has_earlier:
                    raise BrokenChain(f"no entry has the digest {earlier}")
                if next(rest, None) is not None:
                    raise BrokenChain(f"something follows the head, which is number {number}")
                return first, number, digest
            if not first:
                first, number, previous = entry["number"], entry["number"] - 1, entry["previous"]
            _check_follows(entry, digest, number, previous)
            has_earlier |= earlier in (previous, digest)
            number, previous = number + 1, digest
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BrokenChain(f"the line after number {number} is no entry") from error
    raise BrokenChain(f"the end is missing: after number {number} there is no line with the head")


def _check_follows(entry: Mapping[str, Any], digest: str, number: int, previous: str) -> None:
    """Raise BrokenChain unless the entry has this digest and follows the one with `number` and `previous`."""
    if (entry["number"], entry["previous"]) != (number + 1, previous):
        raise BrokenChain(f"an entry after number {number} is missing, changed or inserted")
    if digest_of(entry).hex() != digest:
        raise BrokenChain(f"the entry {number + 1} was changed")
